//! One side of a measurement in a process of its own: `fusewire worker TASK`, which runs start.

use std::process::Command;

use serde::{Deserialize, Serialize};

use crate::{Error, Result};

/// What a worker is to do; goes to it as JSON.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Task {
    Transfer(crate::transfer::Task),
    #[cfg(feature = "experiments")]
    Requested(Box<crate::transfer::requested::Task>),
    #[cfg(feature = "experiments")]
    Latency(crate::latency::Task),
    #[cfg(feature = "experiments")]
    Cold(crate::latency::cold::Task),
    #[cfg(feature = "experiments")]
    Adus(crate::adus::Task),
    #[cfg(feature = "experiments")]
    Inca(crate::inca::Task),
    #[cfg(feature = "experiments")]
    Outboard(Box<crate::outboard::Task>),
    #[cfg(feature = "experiments")]
    Memory(crate::memory::Task),
}

impl Task {
    /// Tells it to the program that the command runs.
    pub(crate) fn pass_to(&self, command: &mut Command) -> Result<()> {
        let text = serde_json::to_string(self)
            .map_err(|e| Error::Os { action: "writing a task", source: e.into() })?;
        command.arg("worker").arg(text);
        Ok(())
    }
}

/// Does what a task says, and prints a report.
///
/// # Errors
/// It is none; whatever went wrong.
pub fn work(task: &str) -> Result<()> {
    let task = serde_json::from_str(task).map_err(|e| Error::Unsupported(format!("task: {e}")))?;
    match task {
        Task::Transfer(task) => crate::transfer::work(&task),
        #[cfg(feature = "experiments")]
        Task::Requested(task) => crate::transfer::requested::work(&task),
        #[cfg(feature = "experiments")]
        Task::Latency(task) => crate::latency::work(&task),
        #[cfg(feature = "experiments")]
        Task::Cold(task) => crate::latency::cold::work(&task),
        #[cfg(feature = "experiments")]
        Task::Adus(task) => crate::adus::work(&task),
        #[cfg(feature = "experiments")]
        Task::Inca(task) => crate::inca::work(&task),
        #[cfg(feature = "experiments")]
        Task::Outboard(task) => crate::outboard::work(&task),
        #[cfg(feature = "experiments")]
        Task::Memory(task) => crate::memory::work(&task),
    }
}

/// For values that are told by their names.
pub(crate) mod by_name {
    use std::fmt::Display;
    use std::str::FromStr;

    use serde::{Deserialize, Deserializer, Serializer};

    pub(crate) fn serialize<T: Display, S: Serializer>(
        value: &T,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        to.collect_str(value)
    }

    pub(crate) fn deserialize<'de, T, D>(from: D) -> Result<T, D::Error>
    where
        T: FromStr<Err: Display>,
        D: Deserializer<'de>,
    {
        String::deserialize(from)?.parse().map_err(serde::de::Error::custom)
    }
}
