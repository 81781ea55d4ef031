"""Vectors of sixteen lanes by hand: where the compiler would keep what is added up in memory, or change its order.

Arrays are taken as they lie in memory (C order) with the place of the first entry; nothing checks that it is inside.
The vectors are those of LLVM, which splits them where a processor has shorter ones.
"""

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

LANES = 16
WORD = ir.IntType(32)
WORDS = ir.VectorType(WORD, LANES)


def _pointer(context, builder, kind, array, at, vector=None):
    """Where entry `at` of an array lies, as an entry or as the first of a vector."""
    data = context.make_array(kind)(context, builder, array).data
    place = builder.gep(data, [at])
    return builder.bitcast(place, vector.as_pointer()) if vector is not None else place


def _everywhere(builder, value, vector):
    """The value in every lane."""
    one = builder.insert_element(ir.Constant(vector, ir.Undefined), value, WORD(0))
    return builder.shuffle_vector(one, ir.Constant(vector, ir.Undefined), ir.Constant(WORDS, [0] * LANES))


@intrinsic
def add_steps(typing_context, words, at, limits, row, count, start, steps, out, to):
    """out[to + j] = start + Σ of steps[q] over q < count with words[at + j] >> 1 >= limits[row + q], j < 16.

    words and limits are of uint32, start, steps and out of int32; of a word the upper 31 bits count.
    """
    signature = types.void(words, types.int64, limits, types.int64, types.int64, types.int32, steps, out, types.int64)

    def generate(context, builder, signature, arguments):
        kinds = signature.args
        words, at, limits, row, count, start, steps, out, to = arguments
        whole = builder.load(_pointer(context, builder, kinds[0], words, at, WORDS), align=4)
        drawn = builder.lshr(whole, ir.Constant(WORDS, [1] * LANES))
        total = cgutils.alloca_once_value(builder, _everywhere(builder, start, WORDS))
        first_limit = _pointer(context, builder, kinds[2], limits, row)
        first_step = _pointer(context, builder, kinds[6], steps, row.type(0))
        with cgutils.for_range(builder, count) as loop:
            limit = _everywhere(builder, builder.load(builder.gep(first_limit, [loop.index])), WORDS)
            more = _everywhere(builder, builder.load(builder.gep(first_step, [loop.index])), WORDS)
            above = builder.icmp_unsigned(">=", drawn, limit)
            added = builder.select(above, more, ir.Constant(WORDS, [0] * LANES))
            builder.store(builder.add(builder.load(total), added), total)
        builder.store(builder.load(total), _pointer(context, builder, kinds[7], out, to, WORDS), align=4)
        return context.get_dummy_value()

    return signature, generate


@intrinsic
def sum_in_order(typing_context, x):
    """Σx of a vector whose length is a multiple of 16: in lanes, then halves onto each other, whatever the compiler."""

    def generate(context, builder, signature, arguments):
        kind = signature.args[0]
        number = ir.FloatType() if kind.dtype == types.float32 else ir.DoubleType()
        vector = ir.VectorType(number, LANES)
        made = context.make_array(kind)(context, builder, arguments[0])
        total = cgutils.alloca_once_value(builder, ir.Constant(vector, [0.0] * LANES))
        zero, step = made.nitems.type(0), made.nitems.type(LANES)
        with cgutils.for_range_slice(builder, zero, made.nitems, step) as (index, _):
            place = builder.bitcast(builder.gep(made.data, [index]), vector.as_pointer())
            more = builder.load(place, align=4)
            builder.store(builder.fadd(builder.load(total), more), total)
        lanes, width = builder.load(total), LANES
        while width > 1:
            width //= 2
            upper = ir.Constant(WORDS, [(lane + width) % LANES for lane in range(LANES)])
            lanes = builder.fadd(lanes, builder.shuffle_vector(lanes, ir.Constant(vector, ir.Undefined), upper))
        return builder.extract_element(lanes, WORD(0))

    return x.dtype(x), generate
