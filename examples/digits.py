"""Train a small convolutional classifier on handwritten digits, look at it, save it and load it again.

    python examples/digits.py

The data are the 1797 images of 8 x 8 pixels that come with scikit-learn, so nothing is downloaded. The
program uses the MLX API only: with `oxmlx` in its imports changed to `mlx` it runs on MLX. It leaves three
files in out/: the curves of loss and accuracy, a sheet of the digits it gets wrong, and the weights.
"""

import sys
import time
from pathlib import Path

import numpy as np
import oxmlx.core as mx
import oxmlx.nn as nn
import oxmlx.optimizers as optim
from oxmlx.utils import tree_flatten
from PIL import Image, ImageDraw
from sklearn.datasets import load_digits

OUT = Path("out")
EPOCHS = 20
BATCH = 64


class Classifier(nn.Module):
    """Two convolutions, each followed by 2 x 2 maximum pooling, and two linear layers."""

    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 32, 3, padding=1)
        self.conv2 = nn.Conv2d(32, 64, 3, padding=1)
        self.pool = nn.MaxPool2d(2)
        self.drop = nn.Dropout(0.25)
        self.linear1 = nn.Linear(2 * 2 * 64, 64)
        self.linear2 = nn.Linear(64, 10)

    def __call__(self, x):
        x = self.pool(nn.relu(self.conv1(x)))
        x = self.pool(nn.relu(self.conv2(x)))
        x = nn.relu(self.linear1(x.flatten(1)))
        return self.linear2(self.drop(x))


def load_data():
    """Images in [0, 1] and labels, split 80 to 20 with every digit in both parts alike."""
    digits = load_digits()
    images = (digits.images / 16).astype(np.float32)[..., None]
    labels = digits.target.astype(np.int32)
    order = np.random.RandomState(0).permutation(len(labels))
    is_test = np.zeros(len(labels), bool)
    for digit in range(10):
        members = order[labels[order] == digit]
        is_test[members[: len(members) // 5]] = True
    train = order[~is_test[order]]
    return images[train], labels[train], images[is_test], labels[is_test]


def progress(epoch, loss, accuracy, seconds):
    """One line that is redrawn on a terminal and written every fifth epoch elsewhere."""
    done = round(30 * epoch / EPOCHS)
    bar = "#" * done + "." * (30 - done)
    line = (
        f"[{bar}] epoch {epoch:2d}/{EPOCHS}  loss {loss:.4f}  test accuracy {accuracy:.4f}  {seconds:5.1f} s"
    )
    if sys.stdout.isatty():
        print("\r" + line, end="\n" if epoch == EPOCHS else "", flush=True)
    elif epoch % 5 == 0:
        print(line, flush=True)


def predict(model, images):
    """The most likely digit of each image, as a numpy array."""
    model.eval()
    found = mx.argmax(model(mx.array(images)), axis=1)
    model.train()
    return np.array(found)


def train(model, images, labels, test_images, test_labels, start):
    """Train in place; the mean loss and the test accuracy of every epoch."""
    batches = -(-len(images) // BATCH)
    optimizer = optim.AdamW(learning_rate=optim.cosine_decay(3e-3, EPOCHS * batches), weight_decay=1e-2)

    def loss_fn(model, x, y):
        return nn.losses.cross_entropy(model(x), y, reduction="mean")

    loss_and_grad = nn.value_and_grad(model, loss_fn)
    rng = np.random.RandomState(1)
    losses, accuracies = [], []
    for epoch in range(1, EPOCHS + 1):
        total = 0.0
        order = rng.permutation(len(images))
        for i in range(batches):
            batch = order[i * BATCH : (i + 1) * BATCH]
            loss, grads = loss_and_grad(model, mx.array(images[batch]), mx.array(labels[batch]))
            optimizer.update(model, grads)
            mx.eval(model.parameters(), optimizer.state)
            total += loss.item() * len(batch)
        losses.append(total / len(images))
        accuracies.append(float((predict(model, test_images) == test_labels).mean()))
        progress(epoch, losses[-1], accuracies[-1], time.perf_counter() - start)
    return losses, accuracies


def draw_curve(draw, box, values, low, high, title, color):
    """One curve in a frame, with its title, the ends of its axis and its last value."""
    left, top, right, bottom = box
    draw.rectangle(box, outline="#888888")
    draw.text((left, top - 16), title, fill="black")
    draw.text((left + 4, top + 2), f"{high:.2f}", fill="#888888")
    draw.text((left + 4, bottom - 13), f"{low:.2f}", fill="#888888")
    step = (right - left) / max(len(values) - 1, 1)
    points = []
    for i, value in enumerate(values):
        height = (min(max(value, low), high) - low) / (high - low)
        points.append((left + i * step, bottom - height * (bottom - top)))
    draw.line(points, fill=color, width=2)
    draw.text((right - 44, top + 2), f"{values[-1]:.4f}", fill=color)


def save_curves(losses, accuracies):
    """Write out/digits_curves.png."""
    image = Image.new("RGB", (760, 300), "white")
    draw = ImageDraw.Draw(image)
    draw_curve(draw, (20, 40, 370, 270), losses, 0.0, max(losses), "training loss, by epoch", "#c0392b")
    draw_curve(draw, (390, 40, 740, 270), accuracies, 0.8, 1.0, "test accuracy, by epoch", "#2471a3")
    image.save(OUT / "digits_curves.png")


def save_errors(images, labels, predicted):
    """Write out/digits_errors.png: every wrong digit with what it is and what it was taken for."""
    wrong = np.flatnonzero(labels != predicted)
    columns, cell = 8, 96
    rows = max(1, -(-len(wrong) // columns))
    sheet = Image.new("RGB", (columns * cell, rows * (cell + 18) + 24), "white")
    draw = ImageDraw.Draw(sheet)
    draw.text((6, 6), f"{len(wrong)} of {len(labels)} digits misread: true > predicted", fill="black")
    for n, i in enumerate(wrong):
        left, top = n % columns * cell, n // columns * (cell + 18) + 24
        pixels = Image.fromarray(255 - (images[i, :, :, 0] * 255).astype(np.uint8))
        sheet.paste(pixels.resize((cell - 8, cell - 8), Image.Resampling.NEAREST), (left + 4, top))
        draw.text((left + 30, top + cell - 6), f"{labels[i]} > {predicted[i]}", fill="#c0392b")
    sheet.save(OUT / "digits_errors.png")


def main():
    """Run the whole story; the last line is the result."""
    start = time.perf_counter()
    OUT.mkdir(exist_ok=True)
    mx.random.seed(0)
    images, labels, test_images, test_labels = load_data()
    model = Classifier()
    losses, accuracies = train(model, images, labels, test_images, test_labels, start)
    save_curves(losses, accuracies)

    # Only what the file holds is judged.
    model.save_weights(str(OUT / "digits.safetensors"))
    loaded = Classifier()
    loaded.load_weights(str(OUT / "digits.safetensors"))
    predicted = predict(loaded, test_images)
    save_errors(test_images, test_labels, predicted)

    accuracy = float((predicted == test_labels).mean())
    parameters = sum(value.size for _, value in tree_flatten(loaded.parameters()))
    seconds = time.perf_counter() - start
    device = mx.default_device()
    print(f"digits: test accuracy {accuracy:.4f}, {parameters} parameters, {seconds:.1f} s on {device}")


if __name__ == "__main__":
    main()
