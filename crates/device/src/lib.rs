//! Frames in and out: UDP encapsulation, shared memory, memory, capture, impairment
