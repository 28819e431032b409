//! The training of `examples/digits.py`, without Python: the same network, data, optimiser and schedule.
//!
//!     make rust-example        # or: cargo run --release --example digits
//!
//! The images are those that come with scikit-learn. They are read from `out/digits.npz`, which the program
//! asks a Python interpreter to write where it is missing. It leaves the weights in
//! `out/digits-rust.safetensors`, which the Python model loads, too.

use oxmlx::nn::{self, Conv2d, Dropout, Linear, Module, Params, Reduction};
use oxmlx::optim::{AdamW, Optimizer, schedule};
use oxmlx::{Array, Dtype, Result, io, ops, runtime::stream};
use std::error::Error;
use std::io::{IsTerminal, Write};
use std::path::Path;
use std::process::Command;
use std::time::Instant;

const EPOCHS: usize = 20;
const BATCH: usize = 64;
const SIDE: usize = 8;
const DATA: &str = "out/digits.npz";
const WEIGHTS: &str = "out/digits-rust.safetensors";

/// Two convolutions, each followed by 2 x 2 maximum pooling, and two linear layers.
struct Classifier {
    conv1: Conv2d,
    conv2: Conv2d,
    drop: Dropout,
    linear1: Linear,
    linear2: Linear,
}
oxmlx::params!(Classifier { conv1, conv2, drop, linear1, linear2 });

impl Classifier {
    fn new() -> Result<Classifier> {
        Ok(Classifier {
            conv1: Conv2d::new(1, 32, [3, 3])?.padding([1, 1]),
            conv2: Conv2d::new(32, 64, [3, 3])?.padding([1, 1]),
            drop: Dropout::new(0.25)?,
            linear1: Linear::new(2 * 2 * 64, 64)?,
            linear2: Linear::new(64, 10)?,
        })
    }
}

impl Module for Classifier {
    fn forward(&self, x: &Array) -> Result<Array> {
        let x = nn::max_pool2d(&nn::relu(&self.conv1.forward(x)?)?, 2)?;
        let x = nn::max_pool2d(&nn::relu(&self.conv2.forward(&x)?)?, 2)?;
        let x = nn::relu(&self.linear1.forward(&ops::flatten(&x, 1, -1)?)?)?;
        self.linear2.forward(&self.drop.forward(&x)?)
    }
}

/// Images in [0, 1] and their digits.
#[derive(Default)]
struct Digits {
    images: Vec<f32>,
    labels: Vec<i32>,
}

impl Digits {
    fn len(&self) -> usize {
        self.labels.len()
    }

    fn push(&mut self, from: &Digits, i: usize) {
        self.images.extend_from_slice(&from.images[i * SIDE * SIDE..(i + 1) * SIDE * SIDE]);
        self.labels.push(from.labels[i]);
    }

    /// Some of them as arrays: `[n, 8, 8, 1]` and `[n]`.
    fn batch(&self, which: &[usize]) -> Result<(Array, Array)> {
        let mut part = Digits::default();
        which.iter().for_each(|&i| part.push(self, i));
        let images: Vec<u8> = part.images.iter().flat_map(|v| v.to_le_bytes()).collect();
        let labels: Vec<u8> = part.labels.iter().flat_map(|v| v.to_le_bytes()).collect();
        let x = Array::from_bytes(&images, &[which.len(), SIDE, SIDE, 1], Dtype::Float32)?;
        Ok((x, Array::from_bytes(&labels, &[which.len()], Dtype::Int32)?))
    }
}

/// Shuffles reproducibly: an order by the engine's own random numbers would be one more eval a batch.
struct Shuffler(u64);

impl Shuffler {
    fn below(&mut self, n: usize) -> usize {
        // xorshift64* (Vigna, 2016).
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize % n
    }

    fn permutation(&mut self, n: usize) -> Vec<usize> {
        let mut order: Vec<usize> = (0..n).collect();
        (1..n).rev().for_each(|i| order.swap(i, self.below(i + 1)));
        order
    }
}

/// Asks scikit-learn for the data.
fn write_data() -> std::result::Result<(), String> {
    let script = "import sys, numpy as np\n\
                  from sklearn.datasets import load_digits\n\
                  d = load_digits()\n\
                  np.savez(sys.argv[1], x=(d.images / 16).astype(np.float32), y=d.target.astype(np.int32))";
    std::fs::create_dir_all("out").map_err(|e| format!("out: {e}"))?;
    for python in [".venv/bin/python", "python3"] {
        let done = Command::new(python).args(["-c", script, DATA]).output();
        if done.is_ok_and(|o| o.status.success()) {
            return Ok(());
        }
    }
    Err(format!(
        "{DATA} is missing, and no Python with scikit-learn was found to write it: run `make rust-example`, or \
         `pip install scikit-learn` and start again"
    ))
}

/// All digits, split 80 to 20 with every digit in both parts alike.
fn load_data() -> std::result::Result<(Digits, Digits), Box<dyn Error>> {
    if !Path::new(DATA).exists() {
        write_data()?;
    }
    let arrays = io::npz::from_bytes(&io::read_file(Path::new(DATA))?)?;
    let find = |name: &str| {
        let found = arrays.iter().find(|a| a.0 == name).map(|a| a.1.clone());
        found.ok_or_else(|| format!("{DATA} has no array `{name}`: remove the file and start again"))
    };
    let images = find("x")?.to_f64_vec()?.into_iter().map(|v| v as f32).collect();
    let labels = find("y")?.to_f64_vec()?.into_iter().map(|v| v as i32).collect();
    let all = Digits { images, labels };
    if all.images.len() != all.len() * SIDE * SIDE {
        return Err(format!("{DATA} does not hold 8 x 8 images: remove the file and start again").into());
    }
    let order = Shuffler(1).permutation(all.len());
    let (mut train, mut test) = (Digits::default(), Digits::default());
    for digit in 0..10 {
        let members: Vec<usize> = order.iter().copied().filter(|&i| all.labels[i] == digit).collect();
        for (place, &i) in members.iter().enumerate() {
            if place < members.len() / 5 { test.push(&all, i) } else { train.push(&all, i) }
        }
    }
    Ok((train, test))
}

/// The part of `digits` that the model gets right.
fn accuracy(model: &mut Classifier, digits: &Digits) -> Result<f64> {
    let (x, y) = digits.batch(&(0..digits.len()).collect::<Vec<_>>())?;
    model.set_training(false);
    let logits = model.forward(&x);
    model.set_training(true);
    Ok(nn::accuracy(&logits?, &y)?.item()?.to_f64())
}

/// One line that is redrawn on a terminal and written every fifth epoch elsewhere.
fn progress(epoch: usize, loss: f64, accuracy: f64, seconds: f64) {
    let done = 30 * epoch / EPOCHS;
    let bar = "#".repeat(done) + &".".repeat(30 - done);
    let line = format!(
        "[{bar}] epoch {epoch:2}/{EPOCHS}  loss {loss:.4}  test accuracy {accuracy:.4}  {seconds:5.1} s"
    );
    if std::io::stdout().is_terminal() {
        print!("\r{line}{}", if epoch == EPOCHS { "\n" } else { "" });
        // A bar that cannot be drawn is no reason to stop.
        let _ = std::io::stdout().flush();
    } else if epoch.is_multiple_of(5) {
        println!("{line}");
    }
}

fn train(model: &mut Classifier, data: &Digits, test: &Digits, start: Instant) -> Result<()> {
    let batches = data.len().div_ceil(BATCH);
    let rate = schedule::cosine_decay(3e-3, (EPOCHS * batches) as u64, 0.0);
    let mut optimizer = AdamW::new(rate).weight_decay(1e-2);
    let mut shuffler = Shuffler(2);
    for epoch in 1..=EPOCHS {
        let mut total = 0.0;
        for batch in shuffler.permutation(data.len()).chunks(BATCH) {
            let (x, y) = data.batch(batch)?;
            let loss = |m: &Classifier| nn::cross_entropy(&m.forward(&x)?, &y, Reduction::Mean);
            let (loss, grads) = nn::value_and_grad(model, loss)?;
            optimizer.update(model, &grads)?;
            let mut all = model.arrays();
            all.extend(optimizer.arrays());
            all.push(loss.clone());
            oxmlx::eval(&all)?;
            total += loss.item()?.to_f64() * batch.len() as f64;
        }
        let seconds = start.elapsed().as_secs_f64();
        progress(epoch, total / data.len() as f64, accuracy(model, test)?, seconds);
    }
    Ok(())
}

fn main() -> std::result::Result<(), Box<dyn Error>> {
    let start = Instant::now();
    oxmlx::init();
    ops::random::seed(0)?;
    let (data, test) = load_data()?;
    let mut model = Classifier::new()?;
    train(&mut model, &data, &test, start)?;

    // Only what the file holds is judged.
    model.save(Path::new(WEIGHTS))?;
    let mut loaded = Classifier::new()?;
    loaded.load(Path::new(WEIGHTS))?;
    let accuracy = accuracy(&mut loaded, &test)?;
    let (parameters, seconds) = (loaded.count(), start.elapsed().as_secs_f64());
    let device = stream::default_device();
    println!("digits: test accuracy {accuracy:.4}, {parameters} parameters, {seconds:.1} s on {device}");
    Ok(())
}
