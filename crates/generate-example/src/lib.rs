//! The ends of specifications that are odd each in its way: a user may write any of them.
#![forbid(unsafe_code)]

/// What is sent again as long as it comes in time.
pub mod again {
    include!(concat!(env!("OUT_DIR"), "/again.rs"));
}

/// Short ADUs beside long ones that are as important.
pub mod arena {
    include!(concat!(env!("OUT_DIR"), "/arena.rs"));
}

/// Both ends send and ask everything.
pub mod both {
    include!(concat!(env!("OUT_DIR"), "/both.rs"));
}

/// Everything is called as something of ours, of Rust's or of another's.
pub mod names {
    include!(concat!(env!("OUT_DIR"), "/names.rs"));
}

/// Orders, deadlines and calls beside each other.
pub mod rich {
    include!(concat!(env!("OUT_DIR"), "/rich.rs"));
}

/// Answers that are shorter than what is asked, one without any byte.
pub mod short {
    include!(concat!(env!("OUT_DIR"), "/short.rs"));
}

/// Long ADUs to a group.
pub mod cast {
    include!(concat!(env!("OUT_DIR"), "/cast.rs"));
}

/// Short ones to a group, fast.
pub mod swift {
    include!(concat!(env!("OUT_DIR"), "/swift.rs"));
}

/// What must arrive beside what may not.
pub mod mixed {
    include!(concat!(env!("OUT_DIR"), "/mixed.rs"));
}

/// More types than a session has terms for their clauses.
pub mod many {
    include!(concat!(env!("OUT_DIR"), "/many.rs"));
}

/// More a second than ages are remembered of, and parity behind what is long.
pub mod fast {
    include!(concat!(env!("OUT_DIR"), "/fast.rs"));
}

/// What a group is sent seldom.
pub mod slow {
    include!(concat!(env!("OUT_DIR"), "/slow.rs"));
}

/// What a group is sent once in some seconds, beside what must arrive in its order.
pub mod seldom {
    include!(concat!(env!("OUT_DIR"), "/seldom.rs"));
}

/// What the tutorial has.
pub mod weather {
    include!(concat!(env!("OUT_DIR"), "/weather.rs"));
}

/// What has no bound.
pub mod note {
    include!(concat!(env!("OUT_DIR"), "/note.rs"));
}

/// Long and seldom, within little more than it takes to leave.
pub mod tight {
    include!(concat!(env!("OUT_DIR"), "/tight.rs"));
}

/// The newest of each symbol, to a large group.
pub mod ticker {
    include!(concat!(env!("OUT_DIR"), "/ticker.rs"));
}
