//! From arrays to results: laziness, fusion, kept interiors, transforms.

use oxmlx::{Array, Dtype, Result, ops, transforms};

fn f32s(values: &[f32], shape: &[usize]) -> Array {
    oxmlx::init();
    let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
    Array::from_bytes(&bytes, shape, Dtype::Float32).unwrap()
}

fn ramp(shape: &[usize]) -> Array {
    let n: usize = shape.iter().product();
    let values: Vec<f32> = (0..n).map(|i| (i as f32 * 0.37).sin()).collect();
    f32s(&values, shape)
}

fn close(a: &Array, want: &[f64]) {
    let got = a.to_f64_vec().unwrap();
    assert_eq!(got.len(), want.len());
    for (g, w) in got.iter().zip(want) {
        assert!((g - w).abs() <= 1e-5 * (1.0 + w.abs()), "{got:?} != {want:?}");
    }
}

#[test]
fn elementwise_chain_and_broadcast() -> Result<()> {
    let x = f32s(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], &[2, 3]);
    let b = f32s(&[10.0, 20.0, 30.0], &[3]);
    let y = ops::add(&ops::multiply(&x, &ops::weak(2.0, Dtype::Float32))?, &b)?;
    close(&y, &[12.0, 24.0, 36.0, 18.0, 30.0, 42.0]);
    let t = ops::transpose(&y, None)?;
    close(&ops::add(&t, &t)?, &[24.0, 36.0, 48.0, 60.0, 72.0, 84.0]);
    Ok(())
}

#[test]
fn softmax_in_one_kernel() -> Result<()> {
    let x = ramp(&[4, 7]);
    oxmlx::runtime::eval::eval(std::slice::from_ref(&x))?;
    let y = ops::softmax(&x, Some(&[-1]))?;
    let sums = ops::sum(&y, Some(&[1]), false)?;
    close(&sums, &[1.0; 4]);
    Ok(())
}

#[test]
fn reductions_over_any_axis() -> Result<()> {
    let x = f32s(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], &[2, 3]);
    close(&ops::sum(&x, None, false)?, &[21.0]);
    close(&ops::sum(&x, Some(&[0]), false)?, &[5.0, 7.0, 9.0]);
    close(&ops::mean(&x, Some(&[1]), true)?, &[2.0, 5.0]);
    close(&ops::max(&x, Some(&[0, 1]), false)?, &[6.0]);
    close(&ops::prod(&x, Some(&[-1]), false)?, &[6.0, 120.0]);
    Ok(())
}

#[test]
fn gradients_of_a_small_network() -> Result<()> {
    let (x, w, b) = (ramp(&[5, 4]), ramp(&[4, 3]), ramp(&[3]));
    let loss = |p: &[Array]| -> Result<Array> {
        let h = ops::tanh(&ops::add(&ops::matmul(&x, &p[0])?, &p[1])?)?;
        ops::mean(&ops::square(&ops::softmax(&h, Some(&[-1]))?)?, None, false)
    };
    let (value, grads) = transforms::value_and_grad(&mut |p| Ok(vec![loss(p)?]), &[w.clone(), b.clone()])?;
    let v0 = value[0].item()?.to_f64();
    for (k, p) in [&w, &b].into_iter().enumerate() {
        let g = grads[k].to_f64_vec()?;
        let base = p.to_f64_vec()?;
        for i in [0, base.len() - 1] {
            let eps = 1e-2;
            let at = |d: f64| -> Result<f64> {
                let mut moved: Vec<f32> = base.iter().map(|&v| v as f32).collect();
                moved[i] += d as f32;
                let q = f32s(&moved, p.shape());
                let args = if k == 0 { [q, b.clone()] } else { [w.clone(), q] };
                Ok(loss(&args)?.item()?.to_f64())
            };
            let numeric = (at(eps)? - at(-eps)?) / (2.0 * eps);
            assert!((numeric - g[i]).abs() < 1e-4 + 1e-2 * numeric.abs(), "{numeric} {}", g[i]);
        }
    }
    assert!(v0.is_finite());
    Ok(())
}

#[test]
fn slices_views_and_assignment() -> Result<()> {
    let x = ramp(&[4, 6]);
    let v = x.to_f64_vec()?;
    let s = ops::slice(&x, &[1, 5], &[3, -7], &[1, -2])?;
    close(&s, &[v[11], v[9], v[7], v[17], v[15], v[13]]);
    let z = ops::slice_update(&x, &ops::weak(7.0, Dtype::Float32), &[0, 0], &[4, 1], &[1, 1])?;
    close(&ops::slice(&z, &[0, 0], &[4, 1], &[1, 1])?, &[7.0; 4]);
    let i = ops::arange(3.0, -1.0, -1.0, Dtype::Int32)?;
    let taken = ops::take(&x, &i, 0)?;
    close(&ops::slice(&taken, &[0, 0], &[1, 6], &[1, 1])?, &v[18..24]);
    Ok(())
}

#[test]
fn vmap_is_a_loop() -> Result<()> {
    let (x, w) = (ramp(&[3, 5]), ramp(&[5, 2]));
    let f = |a: &[Array]| -> Result<Vec<Array>> {
        Ok(vec![ops::softmax(&ops::matmul(&ops::tanh(&a[0])?, &w)?, Some(&[-1]))?])
    };
    let batch =
        transforms::vmap(&mut |a| f(a), std::slice::from_ref(&x), &[Some(0)], &mut |n| Ok(vec![Some(0); n]))?;
    let mut rows = Vec::new();
    for i in 0..3 {
        let row = ops::squeeze(&ops::slice(&x, &[i, 0], &[i + 1, 5], &[1, 1])?, Some(&[0]))?;
        rows.extend(f(&[row])?[0].to_f64_vec()?);
    }
    close(&batch[0], &rows);
    Ok(())
}

#[test]
fn scatter_into_a_slice_with_a_broadcast_scalar() -> Result<()> {
    use oxmlx::primitive::ScatterMode::Assign;
    let x = ramp(&[2, 3, 4]);
    let s = ops::slice(&x, &[0, 0, 0], &[1, 3, 4], &[1, 1, 1])?;
    let bytes: Vec<u8> = [0i32, 3].iter().flat_map(|v| v.to_le_bytes()).collect();
    let i = Array::from_bytes(&bytes, &[2], Dtype::Int32)?;
    let y = ops::scatter(&s, &[i], &ops::weak(-1.0, Dtype::Float32), &[2], Assign)?;
    let z = ops::slice_update(&x, &y, &[0, 0, 0], &[1, 3, 4], &[1, 1, 1])?;
    let v = z.to_f64_vec()?;
    assert_eq!((v[0], v[3], v[8], v[11]), (-1.0, -1.0, -1.0, -1.0));
    assert_eq!(v[1], x.to_f64_vec()?[1]);
    Ok(())
}
