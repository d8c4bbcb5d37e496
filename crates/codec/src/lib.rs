//! Marshalling that generated code calls: XDR over a sink or source
