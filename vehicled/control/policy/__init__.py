"""Controller `policy`: a trained network in an ONNX file, which computes commands from named
features."""
