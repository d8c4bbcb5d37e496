//! Data-manipulation stages and the three ways to run a pipeline of them
