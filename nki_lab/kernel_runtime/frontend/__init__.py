"""From Python kernels to NKI IR: namespaces of both dialects, `issue`, composites, tracer and evaluator."""
