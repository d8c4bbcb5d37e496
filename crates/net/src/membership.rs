//! What of a group is wanted: all of it, some sources, or all but some (RFC 3376, sections 2 to 3; RFC 3810, sections 3
//! to 4).

use core::net::IpAddr;

/// Most sources that one listener names of a group.
pub const MAX_SOURCES: usize = 16;
/// Most that all listeners of an interface name together: a record with them fits into one message.
pub(crate) const MAX_GROUP_SOURCES: usize = 64;

/// Sources of a group whose packets are wanted: a filter mode and a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Filter {
    /// These alone. Of none: not in the group.
    Include(Vec<IpAddr>),
    /// All but these.
    Exclude(Vec<IpAddr>),
}

/// How a listener's membership of a group changes, as sockets are told (RFC 3678, section 3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MembershipChange {
    /// Any source, of a group that it was not in.
    Join,
    /// None any more.
    Leave,
    /// This source too, and none that was not named.
    JoinSource(IpAddr),
    /// This source, which was named, no more.
    LeaveSource(IpAddr),
    /// Any source but this one, too.
    Block(IpAddr),
    /// This source, which was blocked, again.
    Unblock(IpAddr),
}

impl Filter {
    /// That of who is not in the group.
    pub const NONE: Filter = Filter::Include(Vec::new());

    /// Whether nothing is wanted.
    pub fn is_none(&self) -> bool {
        *self == Filter::NONE
    }

    /// Whether packets from `source` are.
    pub fn wants(&self, source: IpAddr) -> bool {
        match self {
            Filter::Include(sources) => sources.contains(&source),
            Filter::Exclude(sources) => !sources.contains(&source),
        }
    }

    /// The sources that it names.
    pub fn sources(&self) -> &[IpAddr] {
        let (Filter::Include(sources) | Filter::Exclude(sources)) = self;
        sources
    }

    /// What `change` makes of it. What is so already may be asked for again.
    ///
    /// # Errors
    /// Sources are to be named in one mode and blocked in the other; or there would be more than [`MAX_SOURCES`].
    pub fn changed(self, change: MembershipChange) -> Result<Filter, &'static str> {
        let is_fresh = self.sources().is_empty();
        Ok(match (self, change) {
            (_, MembershipChange::Leave) => Filter::NONE,
            (old @ Filter::Exclude(_), MembershipChange::Join) => old,
            (_, MembershipChange::Join) if is_fresh => Filter::Exclude(Vec::new()),
            (Filter::Include(named), MembershipChange::JoinSource(source)) => {
                Filter::Include(with(named, source)).bounded()?
            }
            (Filter::Include(named), MembershipChange::LeaveSource(source)) => {
                Filter::Include(without(named, source))
            }
            (Filter::Exclude(blocked), MembershipChange::Block(source)) => {
                Filter::Exclude(with(blocked, source)).bounded()?
            }
            (Filter::Exclude(blocked), MembershipChange::Unblock(source)) => {
                Filter::Exclude(without(blocked, source))
            }
            _ => return Err("a group is joined for some sources or for all but some"),
        })
    }

    fn bounded(self) -> Result<Filter, &'static str> {
        match self.sources().len() {
            ..=MAX_SOURCES => Ok(self),
            _ => Err("more sources of a group than may be named"),
        }
    }

    /// What an interface wants for all its listeners (RFC 3376, section 3.2). `None`: more sources than can be named.
    pub(crate) fn merged<'a>(all: impl Iterator<Item = &'a Filter> + Clone) -> Option<Filter> {
        let mut blocked: Option<Vec<IpAddr>> = None;
        for filter in all.clone() {
            if let Filter::Exclude(sources) = filter {
                let known = blocked.get_or_insert_with(|| sources.clone());
                known.retain(|source| sources.contains(source));
            }
        }
        if let Some(mut blocked) = blocked {
            blocked.retain(|source| !all.clone().any(|filter| filter.wants(*source)));
            return Some(Filter::Exclude(blocked));
        }
        let named = all.flat_map(Filter::sources).fold(Vec::new(), |named, s| with(named, *s));
        (named.len() <= MAX_GROUP_SOURCES).then_some(Filter::Include(named))
    }
}

fn with(mut sources: Vec<IpAddr>, source: IpAddr) -> Vec<IpAddr> {
    if !sources.contains(&source) {
        sources.push(source);
    }
    sources
}

fn without(mut sources: Vec<IpAddr>, source: IpAddr) -> Vec<IpAddr> {
    sources.retain(|known| *known != source);
    sources
}
