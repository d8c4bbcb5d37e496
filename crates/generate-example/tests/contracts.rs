//! What each specification promises, observed between its two ends.

mod again {
    use fusewire_generate_example::again::{Arm, Hand};
    include!(concat!(env!("OUT_DIR"), "/again_contract.rs"));
}

mod arena {
    use fusewire_generate_example::arena::{Arena, Player};
    include!(concat!(env!("OUT_DIR"), "/arena_contract.rs"));
}

mod both {
    use fusewire_generate_example::both::{Left, Right};
    include!(concat!(env!("OUT_DIR"), "/both_contract.rs"));
}

mod names {
    use fusewire_generate_example::names::{Listener, Stream};
    include!(concat!(env!("OUT_DIR"), "/names_contract.rs"));
}

mod rich {
    use fusewire_generate_example::rich::{Asker, Keeper};
    include!(concat!(env!("OUT_DIR"), "/rich_contract.rs"));
}

mod short {
    use fusewire_generate_example::short::{Clerk, Store};
    include!(concat!(env!("OUT_DIR"), "/short_contract.rs"));
}

mod mixed {
    use fusewire_generate_example::mixed::{Game, Player};
    include!(concat!(env!("OUT_DIR"), "/mixed_contract.rs"));
}

mod cast {
    use fusewire_generate_example::cast::{Printer, Reader};
    include!(concat!(env!("OUT_DIR"), "/cast_contract.rs"));
}

mod swift {
    use fusewire_generate_example::swift::{Exchange, Trader};
    include!(concat!(env!("OUT_DIR"), "/swift_contract.rs"));
}

mod many {
    use fusewire_generate_example::many::{Adu, Session};
    include!(concat!(env!("OUT_DIR"), "/many_contract.rs"));
}

mod fast {
    use fusewire_generate_example::fast::{Left, Right};
    include!(concat!(env!("OUT_DIR"), "/fast_contract.rs"));
}

mod slow {
    use fusewire_generate_example::slow::{Sink, Source};
    include!(concat!(env!("OUT_DIR"), "/slow_contract.rs"));
}

mod seldom {
    use fusewire_generate_example::seldom::{Desk, Station};
    include!(concat!(env!("OUT_DIR"), "/seldom_contract.rs"));
}

mod weather {
    use fusewire_generate_example::weather::{Office, Station};
    include!(concat!(env!("OUT_DIR"), "/weather_contract.rs"));
}

mod note {
    use fusewire_generate_example::note::{Reader, Writer};
    include!(concat!(env!("OUT_DIR"), "/note_contract.rs"));
}

mod tight {
    use fusewire_generate_example::tight::{Base, Sensor};
    include!(concat!(env!("OUT_DIR"), "/tight_contract.rs"));
}

mod ticker {
    use fusewire_generate_example::ticker::{Exchange, Trader};
    include!(concat!(env!("OUT_DIR"), "/ticker_contract.rs"));
}
