//! Header formats: parse and emit, no I/O, no clock
