//! Who calls (RFC 5531, section 8.2 and appendix A): AUTH_NONE, AUTH_SYS, and the bytes of any other flavour.
//!
//! AUTH_SYS is what the caller says of itself, and proves nothing.

use fusewire_codec::xdr::{Decode, Decoder, Encode, Encoder};
use fusewire_codec::{Error, Sink, SliceSource, Source};

/// Bytes that an authentication's body has at most (section 8.2).
pub const BODY_LEN_MAX: u32 = 400;

/// `AUTH_NONE`
pub const AUTH_NONE: u32 = 0;
/// `AUTH_SYS`
pub const AUTH_SYS: u32 = 1;

/// `opaque_auth` as it lies in a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OpaqueAuth<'a> {
    pub flavor: u32,
    pub body: fusewire_codec::types::Octets<'a>,
}

impl OpaqueAuth<'static> {
    /// What says nothing.
    pub const NONE: OpaqueAuth<'static> =
        OpaqueAuth { flavor: AUTH_NONE, body: fusewire_codec::types::Octets::new(&[]) };
}

impl Encode for OpaqueAuth<'_> {
    fn encode<S: Sink>(&self, to: &mut Encoder<S>) -> Result<(), Error> {
        to.uint(self.flavor)?;
        to.opaque(&self.body, BODY_LEN_MAX)
    }
}

impl<'a> Decode<'a> for OpaqueAuth<'a> {
    fn decode<S: Source<'a>>(from: &mut Decoder<S>) -> Result<Self, Error> {
        Ok(OpaqueAuth { flavor: from.uint()?, body: from.octets(BODY_LEN_MAX)? })
    }
}

/// Who calls.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Credential {
    /// AUTH_NONE: nobody in particular.
    #[default]
    None,
    /// AUTH_SYS: a user of a machine.
    Sys(AuthSys),
    /// Another flavour: its number and its body, which nobody has looked into.
    Other(u32, Vec<u8>),
}

/// `authsys_parms` (appendix A).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuthSys {
    /// Chosen by the caller's machine.
    pub stamp: u32,
    /// The caller's machine, at most 255 bytes.
    pub machine_name: Vec<u8>,
    /// The caller's effective user.
    pub uid: u32,
    /// The caller's effective group.
    pub gid: u32,
    /// Groups that contain the caller, at most 16.
    pub gids: Vec<u32>,
}

const MACHINE_NAME_LEN_MAX: u32 = 255;
const GIDS_MAX: u32 = 16;

impl Encode for AuthSys {
    fn encode<S: Sink>(&self, to: &mut Encoder<S>) -> Result<(), Error> {
        to.uint(self.stamp)?;
        to.opaque(&self.machine_name, MACHINE_NAME_LEN_MAX)
            .map_err(|e| e.in_field("machinename"))?;
        to.uint(self.uid)?;
        to.uint(self.gid)?;
        to.array(&self.gids, GIDS_MAX).map_err(|e| e.in_field("gids"))
    }
}

impl<'a> Decode<'a> for AuthSys {
    fn decode<S: Source<'a>>(from: &mut Decoder<S>) -> Result<Self, Error> {
        Ok(AuthSys {
            stamp: from.uint()?,
            machine_name: from.field("machinename", |from| from.opaque(MACHINE_NAME_LEN_MAX))?,
            uid: from.uint()?,
            gid: from.uint()?,
            gids: from.field("gids", |from| from.array(GIDS_MAX))?,
        })
    }
}

impl Credential {
    /// As it goes into a call.
    pub(crate) fn opaque(&self) -> Result<OpaqueAuth<'_>, Error> {
        Ok(match self {
            Credential::None => OpaqueAuth::NONE,
            Credential::Sys(sys) => {
                OpaqueAuth { flavor: AUTH_SYS, body: fusewire_codec::xdr::to_vec(sys)?.into() }
            }
            Credential::Other(flavor, body) => {
                OpaqueAuth { flavor: *flavor, body: body.as_slice().into() }
            }
        })
    }

    /// Out of a call.
    pub(crate) fn read(auth: &OpaqueAuth<'_>) -> Result<Credential, AuthStat> {
        match auth.flavor {
            AUTH_NONE => Ok(Credential::None),
            AUTH_SYS => {
                let limits = fusewire_codec::Limits::default();
                let mut decoder = Decoder::new(SliceSource::new(&auth.body), limits);
                let sys =
                    AuthSys::decode(&mut decoder).and_then(|sys| decoder.finish().map(|()| sys));
                sys.map(Credential::Sys).map_err(|_| AuthStat::BadCred)
            }
            flavor => Ok(Credential::Other(flavor, auth.body.to_vec())),
        }
    }
}

/// `auth_stat`: why an authentication failed (section 9).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AuthStat {
    /// `AUTH_BADCRED`: a credential that cannot be read.
    BadCred,
    /// `AUTH_REJECTEDCRED`: the caller must begin anew; also of a flavour that is not known.
    RejectedCred,
    /// `AUTH_BADVERF`
    BadVerf,
    /// `AUTH_REJECTEDVERF`
    RejectedVerf,
    /// `AUTH_TOOWEAK`: refused; another flavour might not be.
    TooWeak,
    /// Any other number.
    Other(u32),
}

impl AuthStat {
    /// Its number.
    pub fn number(self) -> u32 {
        match self {
            AuthStat::BadCred => 1,
            AuthStat::RejectedCred => 2,
            AuthStat::BadVerf => 3,
            AuthStat::RejectedVerf => 4,
            AuthStat::TooWeak => 5,
            AuthStat::Other(number) => number,
        }
    }

    /// The one of that number.
    pub fn from_number(number: u32) -> AuthStat {
        match number {
            1 => AuthStat::BadCred,
            2 => AuthStat::RejectedCred,
            3 => AuthStat::BadVerf,
            4 => AuthStat::RejectedVerf,
            5 => AuthStat::TooWeak,
            other => AuthStat::Other(other),
        }
    }
}

impl std::fmt::Display for AuthStat {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            AuthStat::BadCred => f.write_str("the credential cannot be read"),
            AuthStat::RejectedCred => f.write_str("the credential is rejected"),
            AuthStat::BadVerf => f.write_str("the verifier cannot be read"),
            AuthStat::RejectedVerf => f.write_str("the verifier is rejected"),
            AuthStat::TooWeak => f.write_str("the credential is too weak"),
            AuthStat::Other(number) => write!(f, "auth_stat {number}"),
        }
    }
}
