//! The user MPDU of X.411 (1984), as rasn has it.

use crate::{Case, Values};
use rasn::prelude::*;

#[derive(AsnType, Encode, Decode, Clone, Debug, PartialEq)]
#[rasn(choice)]
enum Mpdu {
    #[rasn(tag(context, 0))]
    User(UserMpdu),
}

#[derive(AsnType, Encode, Decode, Clone, Debug, PartialEq)]
struct UserMpdu {
    envelope: UmpduEnvelope,
    content: OctetString,
}

#[derive(AsnType, Encode, Decode, Clone, Debug, PartialEq)]
#[rasn(set)]
struct UmpduEnvelope {
    mpdu_id: MpduIdentifier,
    originator: OrName,
    encoded_types: Option<EncodedInformationTypes>,
    content_type: ContentType,
    ua_content_id: Option<UaContentId>,
    #[rasn(default = "Priority::normal")]
    priority: Priority,
    #[rasn(default = "PerMessageFlag::none")]
    per_message_flag: PerMessageFlag,
    #[rasn(tag(context, 0))]
    deferred_delivery: Option<Utc>,
    #[rasn(tag(context, 1))]
    per_domain: Option<Vec<PerDomainBilateralInfo>>,
    #[rasn(tag(context, 2))]
    recipient: Vec<RecipientInfo>,
    trace: TraceInformation,
}

/// UTCTime, not parsed into a date.
#[derive(AsnType, Encode, Decode, Clone, Debug, PartialEq)]
#[rasn(delegate, tag(universal, 23))]
struct Utc(VisibleString);

#[derive(AsnType, Encode, Decode, Clone, Debug, PartialEq)]
#[rasn(tag(application, 4))]
struct MpduIdentifier {
    global_id: GlobalDomainIdentifier,
    local: Ia5String,
}

#[derive(AsnType, Encode, Decode, Clone, Debug, PartialEq)]
#[rasn(delegate, tag(application, 6))]
struct ContentType(i64);

#[derive(AsnType, Encode, Decode, Clone, Debug, PartialEq)]
#[rasn(delegate, tag(application, 10))]
struct UaContentId(PrintableString);

#[derive(AsnType, Encode, Decode, Clone, Debug, PartialEq)]
#[rasn(delegate, tag(application, 7))]
struct Priority(i64);

impl Priority {
    fn normal() -> Self {
        Priority(0)
    }
}

#[derive(AsnType, Encode, Decode, Clone, Debug, PartialEq)]
#[rasn(delegate, tag(application, 8))]
struct PerMessageFlag(BitString);

impl PerMessageFlag {
    fn none() -> Self {
        PerMessageFlag(BitString::new())
    }
}

#[derive(AsnType, Encode, Decode, Clone, Debug, PartialEq)]
struct PerDomainBilateralInfo {
    country: CountryName,
    admd: AdministrationDomainName,
    info: Any,
}

#[derive(AsnType, Encode, Decode, Clone, Debug, PartialEq)]
#[rasn(set)]
struct RecipientInfo {
    recipient: OrName,
    #[rasn(tag(context, 0))]
    extension_id: i64,
    #[rasn(tag(context, 1))]
    per_recipient_flag: BitString,
    #[rasn(tag(context, 2))]
    explicit_conversion: Option<i64>,
}

#[derive(AsnType, Encode, Decode, Clone, Debug, PartialEq)]
#[rasn(delegate, tag(application, 9))]
struct TraceInformation(Vec<Trace>);

#[derive(AsnType, Encode, Decode, Clone, Debug, PartialEq)]
struct Trace {
    domain_id: GlobalDomainIdentifier,
    domain_supplied: DomainSuppliedInfo,
}

#[derive(AsnType, Encode, Decode, Clone, Debug, PartialEq)]
#[rasn(set)]
struct DomainSuppliedInfo {
    #[rasn(tag(context, 0))]
    arrival: Utc,
    #[rasn(tag(context, 1))]
    deferred: Option<Utc>,
    #[rasn(tag(context, 2))]
    action: i64,
    encoded_types: Option<EncodedInformationTypes>,
    previous: Option<GlobalDomainIdentifier>,
}

#[derive(AsnType, Encode, Decode, Clone, Debug, PartialEq)]
#[rasn(tag(application, 3))]
struct GlobalDomainIdentifier {
    country: CountryName,
    admd: AdministrationDomainName,
    prmd: Option<NumericOrPrintable>,
}

#[derive(AsnType, Encode, Decode, Clone, Debug, PartialEq)]
#[rasn(choice, tag(explicit(application, 1)))]
enum CountryName {
    Numeric(NumericString),
    Printable(PrintableString),
}

#[derive(AsnType, Encode, Decode, Clone, Debug, PartialEq)]
#[rasn(choice, tag(explicit(application, 2)))]
enum AdministrationDomainName {
    Numeric(NumericString),
    Printable(PrintableString),
}

#[derive(AsnType, Encode, Decode, Clone, Debug, PartialEq)]
#[rasn(choice)]
enum NumericOrPrintable {
    Numeric(NumericString),
    Printable(PrintableString),
}

#[derive(AsnType, Encode, Decode, Clone, Debug, PartialEq)]
#[rasn(tag(application, 0))]
struct OrName {
    standard: StandardAttributeList,
    domain_defined: Option<Vec<DomainDefinedAttribute>>,
}

#[derive(AsnType, Encode, Decode, Clone, Debug, PartialEq)]
struct StandardAttributeList {
    country: Option<CountryName>,
    admd: Option<AdministrationDomainName>,
    #[rasn(tag(context, 0))]
    x121: Option<NumericString>,
    #[rasn(tag(context, 1))]
    terminal_id: Option<PrintableString>,
    #[rasn(tag(explicit(context, 2)))]
    prmd: Option<NumericOrPrintable>,
    #[rasn(tag(context, 3))]
    organization: Option<PrintableString>,
    #[rasn(tag(context, 4))]
    ua_id: Option<NumericString>,
    #[rasn(tag(context, 5))]
    personal_name: Option<PersonalName>,
    #[rasn(tag(context, 6))]
    org_unit: Option<Vec<PrintableString>>,
}

#[derive(AsnType, Encode, Decode, Clone, Debug, PartialEq)]
struct DomainDefinedAttribute {
    kind: PrintableString,
    value: PrintableString,
}

#[derive(AsnType, Encode, Decode, Clone, Debug, PartialEq)]
#[rasn(set)]
struct PersonalName {
    #[rasn(tag(context, 0))]
    surname: PrintableString,
    #[rasn(tag(context, 1))]
    given_name: Option<PrintableString>,
    #[rasn(tag(context, 2))]
    initials: Option<PrintableString>,
    #[rasn(tag(context, 3))]
    general_qualifier: Option<PrintableString>,
}

#[derive(AsnType, Encode, Decode, Clone, Debug, PartialEq)]
#[rasn(set, tag(application, 5))]
struct EncodedInformationTypes {
    #[rasn(tag(context, 0))]
    bits: BitString,
    #[rasn(tag(context, 1))]
    g3: Option<BitString>,
    #[rasn(tag(context, 3))]
    presentation: Option<BitString>,
}

pub fn cases(values: &Values, cases: &mut Vec<Case>) {
    match rasn::ber::decode::<Vec<Mpdu>>(&values.mpdus) {
        Ok(value) => crate::rasns::ber(cases, "mpdus", &value),
        Err(error) => eprintln!("rasn refuses the MPDUs: {error}"),
    }
}
