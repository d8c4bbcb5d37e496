//! Contexts: messages over XTP, straight from the application's memory and to it.

mod delivery;
mod hostile;
mod kept;
mod paths;
mod placement;
mod scheduling;
mod singles;
mod world;
