//! The user MPDU of X.411 (1984), as a compiler writes it from the module: types here, encodings beside.
#![allow(missing_docs, reason = "the module's own names")]

mod ber;
mod ber_names;
mod lws;

use fusewire_codec::types::{
    Any, BitString, Ia5String, NumericString, Octets, PrintableString, UtcTime,
};

/// MPDU, of which only the user's are here.
#[derive(Clone, Debug, PartialEq)]
pub enum Mpdu<'a> {
    User(UserMpdu<'a>),
}

/// UserMPDU.
#[derive(Clone, Debug, PartialEq)]
pub struct UserMpdu<'a> {
    pub envelope: UmpduEnvelope<'a>,
    pub content: Octets<'a>,
}

/// UMPDUEnvelope.
#[derive(Clone, Debug, PartialEq)]
pub struct UmpduEnvelope<'a> {
    pub mpdu_id: MpduIdentifier<'a>,
    pub originator: OrName<'a>,
    pub encoded_types: Option<EncodedInformationTypes<'a>>,
    pub content_type: ContentType,
    pub ua_content_id: Option<UaContentId<'a>>,
    pub priority: Priority,
    pub per_message_flag: PerMessageFlag<'a>,
    pub deferred_delivery: Option<UtcTime<'a>>,
    pub per_domain: Option<Vec<PerDomainBilateralInfo<'a>>>,
    pub recipients: Vec<RecipientInfo<'a>>,
    pub trace: TraceInformation<'a>,
}

/// MPDUIdentifier.
#[derive(Clone, Debug, PartialEq)]
pub struct MpduIdentifier<'a> {
    pub global_id: GlobalDomainIdentifier<'a>,
    pub local_id: Ia5String<'a>,
}

/// ContentType.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ContentType(pub i64);

/// UAContentId.
#[derive(Clone, Debug, PartialEq)]
pub struct UaContentId<'a>(pub PrintableString<'a>);

/// Priority.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Priority(pub i64);

/// PerMessageFlag.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PerMessageFlag<'a>(pub BitString<'a>);

/// PerDomainBilateralInfo.
#[derive(Clone, Debug, PartialEq)]
pub struct PerDomainBilateralInfo<'a> {
    pub country: CountryName<'a>,
    pub admd: AdministrationDomainName<'a>,
    pub info: Any<'a>,
}

/// RecipientInfo.
#[derive(Clone, Debug, PartialEq)]
pub struct RecipientInfo<'a> {
    pub recipient: OrName<'a>,
    pub extension_id: i64,
    pub per_recipient_flag: BitString<'a>,
    pub explicit_conversion: Option<i64>,
}

/// TraceInformation.
#[derive(Clone, Debug, PartialEq)]
pub struct TraceInformation<'a>(pub Vec<Trace<'a>>);

/// An element of TraceInformation.
#[derive(Clone, Debug, PartialEq)]
pub struct Trace<'a> {
    pub domain_id: GlobalDomainIdentifier<'a>,
    pub domain_supplied: DomainSuppliedInfo<'a>,
}

/// DomainSuppliedInfo.
#[derive(Clone, Debug, PartialEq)]
pub struct DomainSuppliedInfo<'a> {
    pub arrival: UtcTime<'a>,
    pub deferred: Option<UtcTime<'a>>,
    pub action: i64,
    pub encoded_types: Option<EncodedInformationTypes<'a>>,
    pub previous: Option<GlobalDomainIdentifier<'a>>,
}

/// GlobalDomainIdentifier.
#[derive(Clone, Debug, PartialEq)]
pub struct GlobalDomainIdentifier<'a> {
    pub country: CountryName<'a>,
    pub admd: AdministrationDomainName<'a>,
    pub prmd: Option<Name<'a>>,
}

/// CountryName.
#[derive(Clone, Debug, PartialEq)]
pub struct CountryName<'a>(pub Name<'a>);

/// AdministrationDomainName.
#[derive(Clone, Debug, PartialEq)]
pub struct AdministrationDomainName<'a>(pub Name<'a>);

/// PrivateDomainName, and what the other names of domains contain.
#[derive(Clone, Debug, PartialEq)]
pub enum Name<'a> {
    Numeric(NumericString<'a>),
    Printable(PrintableString<'a>),
}

/// ORName.
#[derive(Clone, Debug, PartialEq)]
pub struct OrName<'a> {
    pub standard: StandardAttributeList<'a>,
    pub domain_defined: Option<Vec<DomainDefinedAttribute<'a>>>,
}

/// StandardAttributeList.
#[derive(Clone, Debug, PartialEq)]
pub struct StandardAttributeList<'a> {
    pub country: Option<CountryName<'a>>,
    pub admd: Option<AdministrationDomainName<'a>>,
    pub x121: Option<NumericString<'a>>,
    pub terminal_id: Option<PrintableString<'a>>,
    pub prmd: Option<Name<'a>>,
    pub organization: Option<PrintableString<'a>>,
    pub ua_id: Option<NumericString<'a>>,
    pub personal_name: Option<PersonalName<'a>>,
    pub org_unit: Option<Vec<PrintableString<'a>>>,
}

/// DomainDefinedAttribute.
#[derive(Clone, Debug, PartialEq)]
pub struct DomainDefinedAttribute<'a> {
    pub kind: PrintableString<'a>,
    pub value: PrintableString<'a>,
}

/// PersonalName.
#[derive(Clone, Debug, PartialEq)]
pub struct PersonalName<'a> {
    pub surname: PrintableString<'a>,
    pub given_name: Option<PrintableString<'a>>,
    pub initials: Option<PrintableString<'a>>,
    pub general_qualifier: Option<PrintableString<'a>>,
}

/// EncodedInformationTypes, without those of Teletex.
#[derive(Clone, Debug, PartialEq)]
pub struct EncodedInformationTypes<'a> {
    pub bits: BitString<'a>,
    pub g3: Option<BitString<'a>>,
    pub presentation: Option<BitString<'a>>,
}
