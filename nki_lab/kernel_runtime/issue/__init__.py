"""The recording of instructions, shared by both front ends: builder, legality, source locations, names of `nki.isa`."""
