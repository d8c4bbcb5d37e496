//! Virtual clock, simulated links, seeds (for tests only)
