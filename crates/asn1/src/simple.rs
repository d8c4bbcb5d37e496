//! The types that have no parts, by name and tag.

/// Types without parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Simple {
    /// `BOOLEAN`.
    Boolean,
    /// `NULL`.
    Null,
    /// `REAL`.
    Real,
    /// `OCTET STRING`.
    OctetString,
    /// `OBJECT IDENTIFIER`.
    ObjectIdentifier,
    /// `RELATIVE-OID`.
    RelativeOid,
    /// `OID-IRI`.
    OidIri,
    /// `RELATIVE-OID-IRI`.
    RelativeOidIri,
    /// `EXTERNAL`.
    External,
    /// `EMBEDDED PDV`.
    EmbeddedPdv,
    /// `CHARACTER STRING`.
    CharacterString,
    /// `ObjectDescriptor`.
    ObjectDescriptor,
    /// `UTF8String`.
    Utf8String,
    /// `NumericString`.
    NumericString,
    /// `PrintableString`.
    PrintableString,
    /// `TeletexString`, `T61String`.
    TeletexString,
    /// `VideotexString`.
    VideotexString,
    /// `IA5String`.
    Ia5String,
    /// `GraphicString`.
    GraphicString,
    /// `VisibleString`, `ISO646String`.
    VisibleString,
    /// `GeneralString`.
    GeneralString,
    /// `UniversalString`.
    UniversalString,
    /// `BMPString`.
    BmpString,
    /// `UTCTime`.
    UtcTime,
    /// `GeneralizedTime`.
    GeneralizedTime,
    /// `TIME`.
    Time,
    /// `DATE`.
    Date,
    /// `TIME-OF-DAY`.
    TimeOfDay,
    /// `DATE-TIME`.
    DateTime,
    /// `DURATION`.
    Duration,
}

impl Simple {
    /// The type that one word names.
    pub fn from_word(word: &str) -> Option<Simple> {
        Some(match word {
            "BOOLEAN" => Simple::Boolean,
            "NULL" => Simple::Null,
            "REAL" => Simple::Real,
            "RELATIVE-OID" => Simple::RelativeOid,
            "OID-IRI" => Simple::OidIri,
            "RELATIVE-OID-IRI" => Simple::RelativeOidIri,
            "EXTERNAL" => Simple::External,
            "ObjectDescriptor" => Simple::ObjectDescriptor,
            "UTF8String" => Simple::Utf8String,
            "NumericString" => Simple::NumericString,
            "PrintableString" => Simple::PrintableString,
            "TeletexString" | "T61String" => Simple::TeletexString,
            "VideotexString" => Simple::VideotexString,
            "IA5String" => Simple::Ia5String,
            "GraphicString" => Simple::GraphicString,
            "VisibleString" | "ISO646String" => Simple::VisibleString,
            "GeneralString" => Simple::GeneralString,
            "UniversalString" => Simple::UniversalString,
            "BMPString" => Simple::BmpString,
            "UTCTime" => Simple::UtcTime,
            "GeneralizedTime" => Simple::GeneralizedTime,
            "TIME" => Simple::Time,
            "DATE" => Simple::Date,
            "TIME-OF-DAY" => Simple::TimeOfDay,
            "DATE-TIME" => Simple::DateTime,
            "DURATION" => Simple::Duration,
            _ => return None,
        })
    }

    /// The number of its tag of class UNIVERSAL (X.680 clause 8.4).
    pub fn tag(self) -> u32 {
        match self {
            Simple::Boolean => 1,
            Simple::OctetString => 4,
            Simple::Null => 5,
            Simple::ObjectIdentifier => 6,
            Simple::ObjectDescriptor => 7,
            Simple::External => 8,
            Simple::Real => 9,
            Simple::EmbeddedPdv => 11,
            Simple::Utf8String => 12,
            Simple::RelativeOid => 13,
            Simple::Time => 14,
            Simple::NumericString => 18,
            Simple::PrintableString => 19,
            Simple::TeletexString => 20,
            Simple::VideotexString => 21,
            Simple::Ia5String => 22,
            Simple::UtcTime => 23,
            Simple::GeneralizedTime => 24,
            Simple::GraphicString => 25,
            Simple::VisibleString => 26,
            Simple::GeneralString => 27,
            Simple::UniversalString => 28,
            Simple::CharacterString => 29,
            Simple::BmpString => 30,
            Simple::Date => 31,
            Simple::TimeOfDay => 32,
            Simple::DateTime => 33,
            Simple::Duration => 34,
            Simple::OidIri => 35,
            Simple::RelativeOidIri => 36,
        }
    }

    /// Whether its values are character strings of the notation `"…"`.
    pub fn is_text(self) -> bool {
        use Simple::*;
        matches!(
            self,
            ObjectDescriptor
                | Utf8String
                | NumericString
                | PrintableString
                | TeletexString
                | VideotexString
                | Ia5String
                | UtcTime
                | GeneralizedTime
                | GraphicString
                | VisibleString
                | GeneralString
                | UniversalString
                | CharacterString
                | BmpString
                | Time
                | Date
                | TimeOfDay
                | DateTime
                | Duration
                | OidIri
                | RelativeOidIri
        )
    }
}
