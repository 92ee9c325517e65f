"""Train a small model in JAX with an RMS norm whose forward and backward passes are kernels.

    pip install 'nki-lab[jax]'
    python examples/frameworks/jax_training.py

The losses are those of the same model with the norm in jax.numpy.
"""

import nki_lab

nki_lab.activate()

import jax
import jax.numpy as jnp
import nki
import nki.language as nl

EPSILON = 1e-6


@nki.jit
def rms_norm_forward(x, gain):
    """Return x * gain / rms(x) by rows, and 1 / rms(x). x is [rows, columns] with rows <= 128, gain [1, columns]."""
    rows, columns = x.shape
    y = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    scale = nl.ndarray((rows, 1), dtype=nl.float32, buffer=nl.shared_hbm)
    tile = nl.load(x)
    mean = nl.multiply(nl.sum(nl.square(tile), axis=1, keepdims=True), 1.0 / columns)
    inverse = nl.rsqrt(nl.add(mean, EPSILON))
    normed = nl.multiply(tile, inverse)
    nl.store(y, nl.multiply(normed, nl.broadcast_to(nl.load(gain), x.shape)))
    nl.store(scale, inverse)
    return y, scale


@nki.jit
def rms_norm_backward(x, gain, scale, dy):
    """Return the gradients by x and, row by row, by the gain. scale is 1 / rms(x), dy the gradient by the result."""
    columns = x.shape[1]
    dx = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    dgain = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    given, inverse = nl.load(dy), nl.load(scale)
    normed = nl.multiply(nl.load(x), inverse)
    nl.store(dgain, nl.multiply(given, normed))
    weighted = nl.multiply(given, nl.broadcast_to(nl.load(gain), x.shape))
    along = nl.multiply(nl.sum(nl.multiply(weighted, normed), axis=1, keepdims=True), 1.0 / columns)
    nl.store(dx, nl.multiply(nl.subtract(weighted, nl.multiply(normed, along)), inverse))
    return dx, dgain


@jax.custom_vjp
def rms_norm(x, gain):
    """The norm as an operation of JAX."""
    return rms_norm_forward(x, gain)[0]


def _forward(x, gain):
    y, scale = rms_norm_forward(x, gain)
    return y, (x, gain, scale)


def _backward(kept, dy):
    dx, dgain = rms_norm_backward(*kept, dy)
    return dx, dgain.sum(axis=0, keepdims=True)


rms_norm.defvjp(_forward, _backward)


def plain_rms_norm(x, gain):
    """The same in jax.numpy."""
    return x * gain * jax.lax.rsqrt(jnp.mean(x * x, axis=1, keepdims=True) + EPSILON)


def losses(norm, steps=20, rate=0.3):
    """Return the loss of each step of training a two-layer model to repeat another one."""
    keys = jax.random.split(jax.random.key(0), 5)
    x = jax.random.normal(keys[0], (128, 64))
    wanted = jnp.tanh(x @ jax.random.normal(keys[1], (64, 8)) / 8)
    weights = {
        "first": jax.random.normal(keys[2], (64, 32)) / 8,
        "gain": jnp.ones((1, 32)),
        "second": jax.random.normal(keys[3], (32, 8)) / 6,
    }

    def loss(weights):
        hidden = jax.nn.silu(norm(x @ weights["first"], weights["gain"]))
        return jnp.mean((hidden @ weights["second"] - wanted) ** 2)

    @jax.jit
    def step(weights):
        value, gradients = jax.value_and_grad(loss)(weights)
        return value, jax.tree.map(lambda weight, gradient: weight - rate * gradient, weights, gradients)

    found = []
    for _ in range(steps):
        value, weights = step(weights)
        found.append(float(value))
    return found


if __name__ == "__main__":
    kernels, plain = losses(rms_norm), losses(plain_rms_norm)
    difference = max(abs(mine - other) for mine, other in zip(kernels, plain, strict=True))
    print(f"loss {kernels[0]:.4f} -> {kernels[-1]:.4f}; with jax.numpy {plain[0]:.4f} -> {plain[-1]:.4f}")
    print(f"largest difference {difference:.1e}")
    assert difference < 1e-4
    assert kernels[-1] < kernels[0]
