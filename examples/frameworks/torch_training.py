"""Train a small model in PyTorch with a SiLU whose forward and backward passes are kernels.

    pip install 'nki-lab[torch]'
    nki-lab run examples/frameworks/torch_training.py

The losses are those of the same model with torch.nn.functional.silu. On a Neuron host, plain `python` runs the same
file on the device.
"""

import nki
import nki.language as nl
import torch
import torch_xla


@nki.jit
def silu_forward(x):
    """Return x * sigmoid(x). x is [rows, columns] with rows <= 128."""
    y = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.load(x)
    nl.store(y, nl.multiply(tile, nl.sigmoid(tile)))
    return y


@nki.jit
def silu_backward(x, dy):
    """Return the gradient by x: dy * s * (1 + x * (1 - s)) with s = sigmoid(x)."""
    dx = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.load(x)
    gate = nl.sigmoid(tile)
    slope = nl.multiply(gate, nl.add(nl.multiply(tile, nl.subtract(1.0, gate)), 1.0))
    nl.store(dx, nl.multiply(nl.load(dy), slope))
    return dx


class Silu(torch.autograd.Function):
    """SiLU with a kernel for each direction."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return silu_forward(x)

    @staticmethod
    def backward(ctx, dy):
        (x,) = ctx.saved_tensors
        return silu_backward(x, dy.contiguous())


class Model(torch.nn.Module):
    """A perceptron of one hidden layer."""

    def __init__(self, activation):
        super().__init__()
        self.first = torch.nn.Linear(64, 32)
        self.second = torch.nn.Linear(32, 8)
        self.activation = activation

    def forward(self, x):
        return self.second(self.activation(self.first(x)))


def losses(activation, steps=20):
    """Return the loss of each step of training a model to repeat a function."""
    torch.manual_seed(0)
    device = torch_xla.device()
    model = Model(activation).to(device)
    x = torch.randn(128, 64).to(device)
    wanted = torch.tanh(x @ torch.randn(64, 8).to(device) / 8)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    found = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(x), wanted)
        loss.backward()
        optimizer.step()
        torch_xla.sync()
        found.append(loss.item())
    return found


if __name__ == "__main__":
    kernels, plain = losses(Silu.apply), losses(torch.nn.functional.silu)
    difference = max(abs(mine - other) for mine, other in zip(kernels, plain, strict=True))
    print(f"loss {kernels[0]:.4f} -> {kernels[-1]:.4f}; with torch's own SiLU {plain[0]:.4f} -> {plain[-1]:.4f}")
    print(f"largest difference {difference:.1e}")
    assert difference < 1e-4
    assert kernels[-1] < kernels[0]
