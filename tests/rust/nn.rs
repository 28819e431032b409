//! The Rust face of training: layers, optimisers and files against formulas written out.

use oxmlx::nn::{self, Conv2d, Dropout, Embedding, LayerNorm, Linear, Module, Params, Sequential};
use oxmlx::optim::{Adam, AdamW, Optimizer, Sgd, clip_grad_norm, schedule};
use oxmlx::{Array, Dtype, Result, ops};

fn close(got: &[f64], want: &[f64]) {
    assert_eq!(got.len(), want.len());
    for (g, w) in got.iter().zip(want) {
        assert!((g - w).abs() <= 1e-5 * (1.0 + w.abs()), "{got:?} != {want:?}");
    }
}

fn classifier() -> Result<Sequential> {
    let body = Sequential::new().then(Linear::new(4, 16)?).then(LayerNorm::new(16)?).apply(nn::silu);
    Ok(body.then(Dropout::new(0.1)?).then(Linear::new(16, 3)?))
}

/// One step of an optimiser on two numbers with gradient g, `n` times.
fn steps(mut optimizer: impl Optimizer, g: [f64; 2], n: usize) -> Result<Vec<f64>> {
    oxmlx::init();
    let mut model = vec![ops::ones(&[2], Dtype::Float32)?];
    let bytes: Vec<u8> = g.iter().flat_map(|&v| (v as f32).to_le_bytes()).collect();
    let gradient = Array::from_bytes(&bytes, &[2], Dtype::Float32)?;
    for _ in 0..n {
        optimizer.update(&mut model, &[("0".to_string(), gradient.clone())].into())?;
    }
    model[0].to_f64_vec()
}

#[test]
fn optimisers_follow_their_formulas() -> Result<()> {
    let g = [0.5, -2.0];
    close(&steps(Sgd::new(0.1), g, 2)?, &g.map(|g| 1.0 - 0.2 * g));
    let momentum = g.map(|g| 1.0 - 0.1 * g - 0.1 * (0.9 * g + g));
    close(&steps(Sgd::new(0.1).momentum(0.9), g, 2)?, &momentum);
    let nesterov = g.map(|g| 1.0 - 0.1 * (g + 0.9 * g));
    close(&steps(Sgd::new(0.1).momentum(0.9).nesterov(), g, 1)?, &nesterov);
    let adam = |p: f64, g: f64, rate: f64| p - rate * 0.1 * g / ((0.001 * g * g).sqrt() + 1e-8);
    close(&steps(Adam::new(0.1), g, 1)?, &g.map(|g| adam(1.0, g, 0.1)));
    close(&steps(AdamW::new(0.1).weight_decay(0.5), g, 1)?, &g.map(|g| adam(0.95, g, 0.1)));
    // Corrected, the first step is the rate, whatever the gradient.
    close(&steps(Adam::new(0.1).bias_correction(true), g, 1)?, &[0.9, 1.1]);
    Ok(())
}

#[test]
fn gradients_have_the_names_of_parameters_and_the_model_is_left_alone() -> Result<()> {
    let mut model = classifier()?;
    let before = model.parameters();
    let x = nn::normal(&[5, 4])?;
    let (_, grads) = nn::value_and_grad(&mut model, |m| ops::sum(&m.forward(&x)?, None, false))?;
    assert!(grads.keys().eq(before.keys()));
    assert!(model.parameters().values().zip(before.values()).all(|(a, b)| a.id() == b.id()));
    let failed = nn::value_and_grad(&mut model, |m| ops::reshape(&m.forward(&x)?, &[7]));
    assert!(failed.is_err());
    assert!(model.parameters().values().all(|a| !a.is_traced()));
    Ok(())
}

#[test]
fn weights_and_states_survive_files() -> Result<()> {
    let path = std::env::temp_dir().join(format!("oxmlx-nn-{}.safetensors", std::process::id()));
    let (mut model, mut loaded) = (classifier()?, classifier()?);
    model.set_training(false);
    loaded.set_training(false);
    model.save(&path)?;
    loaded.load(&path)?;
    let x = nn::normal(&[3, 4])?;
    assert_eq!(model.forward(&x)?.to_bytes()?, loaded.forward(&x)?.to_bytes()?);
    let missing = Embedding::new(3, 2)?.load(&path).unwrap_err();
    assert!(missing.message.contains("weight"), "{missing}");
    std::fs::remove_file(&path).unwrap();

    let grads = model.parameters();
    let mut optimizer = Adam::new(schedule::linear(0.0, 1.0, 10));
    optimizer.update(&mut model, &grads)?;
    let mut other = Adam::new(schedule::linear(0.0, 1.0, 10));
    other.set_state(&optimizer.state())?;
    assert_eq!((other.steps(), other.learning_rate()), (1, 0.1));
    assert!(other.state().keys().eq(optimizer.state().keys()));
    Ok(())
}

#[test]
fn wrong_names_and_shapes_change_nothing() -> Result<()> {
    let mut model = Linear::new(2, 3)?;
    let before = model.weight.id();
    let wrong = [("weight".to_string(), nn::normal(&[2, 3])?)];
    assert!(model.update(&wrong.into()).unwrap_err().message.contains("Expected shape"));
    let unknown =
        [("weight".to_string(), nn::normal(&[3, 2])?), ("wieght".to_string(), nn::normal(&[3, 2])?)];
    assert!(model.update(&unknown.into()).unwrap_err().message.contains("wieght"));
    assert_eq!(model.weight.id(), before);
    Ok(())
}

#[test]
fn dropout_scales_what_it_leaves() -> Result<()> {
    let mut layer = Dropout::new(0.25)?;
    let x = ops::ones(&[4000], Dtype::Float32)?;
    let y = layer.forward(&x)?.to_f64_vec()?;
    assert!(y.iter().all(|&v| v == 0.0 || (v - 4.0 / 3.0).abs() < 1e-6));
    let kept = y.iter().filter(|&&v| v != 0.0).count();
    assert!((2800..3200).contains(&kept), "{kept}");
    layer.set_training(false);
    assert_eq!(layer.forward(&x)?.id(), x.id());
    assert!(Dropout::new(1.0).is_err());
    Ok(())
}

#[test]
fn convolutions_and_pooling_have_gradients() -> Result<()> {
    // Fixed numbers: with random ones the maximum of a window changes its place now and then.
    let fixed = |shape: &[usize], scale: f64| -> Result<Array> {
        let n = shape.iter().product::<usize>() as f64;
        let steps = ops::arange(0.0, n * scale, scale, Dtype::Float32)?;
        ops::reshape(&ops::sin(&steps)?, &shape.iter().map(|&d| d as i64).collect::<Vec<_>>())
    };
    let mut layer = Conv2d::new(2, 4, [3, 3])?.padding([1, 1]);
    layer.weight = fixed(&[4, 3, 3, 2], 1.3)?;
    let x = fixed(&[2, 5, 5, 2], 0.7)?;
    let loss = |m: &Conv2d| ops::mean(&ops::square(&nn::max_pool2d(&m.forward(&x)?, 2)?)?, None, false);
    let (_, grads) = nn::value_and_grad(&mut layer, loss)?;
    let at = |moved: f64| -> Result<f64> {
        let mut values: Vec<f32> = layer.weight.to_f64_vec()?.iter().map(|&v| v as f32).collect();
        values[7] += moved as f32;
        let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
        let mut other = Conv2d::new(2, 4, [3, 3])?.padding([1, 1]);
        other.weight = Array::from_bytes(&bytes, layer.weight.shape(), Dtype::Float32)?;
        other.bias = layer.bias.clone();
        Ok(loss(&other)?.item()?.to_f64())
    };
    let numeric = (at(1e-3)? - at(-1e-3)?) / 2e-3;
    let exact = grads["weight"].to_f64_vec()?[7];
    assert!((numeric - exact).abs() < 1e-2 * (0.1 + exact.abs()), "{numeric} {exact}");
    Ok(())
}

#[test]
fn gradients_are_clipped_together() -> Result<()> {
    oxmlx::init();
    let three = ops::multiply(&ops::ones(&[1], Dtype::Float32)?, &ops::weak(3.0, Dtype::Float32))?;
    let four = ops::multiply(&ops::ones(&[1], Dtype::Float32)?, &ops::weak(4.0, Dtype::Float32))?;
    let grads = [("a".to_string(), three), ("b".to_string(), four)].into();
    let (clipped, norm) = clip_grad_norm(&grads, 1.0)?;
    close(&[norm.item()?.to_f64()], &[5.0]);
    close(&[clipped["a"].item()?.to_f64(), clipped["b"].item()?.to_f64()], &[0.6, 0.8]);
    let (same, _) = clip_grad_norm(&grads, 10.0)?;
    close(&[same["b"].item()?.to_f64()], &[4.0]);
    Ok(())
}
