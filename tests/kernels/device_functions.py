"""Loops on the device whose bodies are functions: nested, closures, methods, a lambda."""

import nki
import nki.isa as nisa
import nki.language as nl

from nki_lab import spec

ARGUMENTS = (spec((4, 128, 64), "float32"), spec((1, 1), "int32"))


class Step(nki.language.NKIObject):
    amount: float = 1.0

    def apply(self, tile):
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.add, operand0=self.amount)

    def body(self, i):
        pass


def copied(source, target):
    def body(i):
        nl.store(target.select(0, i), nl.load(source.select(0, i)))

    return body


@nki.jit
def kernel(x, count):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    loaded = nl.load(count)
    tiles = nisa.register_alloc()
    nisa.register_load(tiles, loaded)
    step = Step(amount=2.0)
    total = nl.zeros((128, 64), dtype=x.dtype)

    def outer(i):
        def inner(k):
            nisa.tensor_copy(dst=total[:, nl.ds(k, 1)], src=total[:, nl.ds(k, 1)])

        tile = nl.load(x.select(0, i))
        step.apply(tile)
        nisa.tensor_tensor(dst=total, data1=total, data2=tile, op=nl.add)
        nl.fori_loop(0, 4, inner)

    nl.fori_loop(0, tiles, outer)
    nl.fori_loop(0, 2, step.body)
    nl.fori_loop(0, 4, copied(x, out), step=2)
    again = nisa.register_alloc(2)

    def until(r):
        counter = nl.ndarray((1, 1), dtype=nl.int32)
        nisa.register_store(dst=counter, src=r)
        nisa.tensor_scalar(dst=counter, data=counter, op0=nl.subtract, operand0=1)
        left = nisa.register_alloc()
        nisa.register_load(left, counter)
        return left

    nl.while_loop(again, until)
    nl.while_loop(nisa.register_alloc(0), lambda r: r)
    nl.store(out[3], total)
    return out
