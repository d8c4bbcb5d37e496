//! Protocol machines without I/O: TCP, congestion control, timers
