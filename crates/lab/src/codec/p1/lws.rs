//! Their LWS.

use super::*;
use fusewire_codec::lws::{Decode, Decoder, Encode, Encoder, Word};
use fusewire_codec::{Error, Sink, Source};

impl Encode for Mpdu<'_> {
    fn encode<S: Sink, W: Word>(&self, to: &mut Encoder<S, W>) -> Result<(), Error> {
        match self {
            Mpdu::User(value) => to.index(0).and_then(|()| value.encode(to)),
        }
    }
}

impl<'a> Decode<'a> for Mpdu<'a> {
    fn decode<S: Source<'a>, W: Word>(from: &mut Decoder<S, W>) -> Result<Self, Error> {
        match from.index()? {
            0 => from.field("user", Decode::decode).map(Mpdu::User),
            other => Err(from.unknown(other as i64, "Mpdu")),
        }
    }
}

impl Encode for UserMpdu<'_> {
    fn encode<S: Sink, W: Word>(&self, to: &mut Encoder<S, W>) -> Result<(), Error> {
        self.envelope.encode(to)?;
        self.content.encode(to)?;
        Ok(())
    }
}

impl<'a> Decode<'a> for UserMpdu<'a> {
    fn decode<S: Source<'a>, W: Word>(from: &mut Decoder<S, W>) -> Result<Self, Error> {
        Ok(UserMpdu {
            envelope: from.field("envelope", Decode::decode)?,
            content: from.field("content", Decode::decode)?,
        })
    }
}

impl Encode for UmpduEnvelope<'_> {
    fn encode<S: Sink, W: Word>(&self, to: &mut Encoder<S, W>) -> Result<(), Error> {
        let present = u64::from(self.encoded_types.is_some()) << 5
            | u64::from(self.ua_content_id.is_some()) << 4
            | u64::from(self.priority != Priority(0)) << 3
            | u64::from(self.per_message_flag != PerMessageFlag::default()) << 2
            | u64::from(self.deferred_delivery.is_some()) << 1
            | u64::from(self.per_domain.is_some());
        to.presence(present, 6)?;
        self.mpdu_id.encode(to)?;
        self.originator.encode(to)?;
        if let Some(encoded_types) = &self.encoded_types {
            encoded_types.encode(to)?;
        }
        self.content_type.encode(to)?;
        if let Some(ua_content_id) = &self.ua_content_id {
            ua_content_id.encode(to)?;
        }
        if self.priority != Priority(0) {
            self.priority.encode(to)?;
        }
        if self.per_message_flag != PerMessageFlag::default() {
            self.per_message_flag.encode(to)?;
        }
        if let Some(deferred_delivery) = &self.deferred_delivery {
            deferred_delivery.encode(to)?;
        }
        if let Some(per_domain) = &self.per_domain {
            per_domain.encode(to)?;
        }
        self.recipients.encode(to)?;
        self.trace.encode(to)?;
        Ok(())
    }
}

impl<'a> Decode<'a> for UmpduEnvelope<'a> {
    fn decode<S: Source<'a>, W: Word>(from: &mut Decoder<S, W>) -> Result<Self, Error> {
        let present = from.presence(6)?;
        Ok(UmpduEnvelope {
            mpdu_id: from.field("mpdu_id", Decode::decode)?,
            originator: from.field("originator", Decode::decode)?,
            encoded_types: from.optional(present & 32 != 0, "encoded_types", Decode::decode)?,
            content_type: from.field("content_type", Decode::decode)?,
            ua_content_id: from.optional(present & 16 != 0, "ua_content_id", Decode::decode)?,
            priority: from
                .optional(present & 8 != 0, "priority", Decode::decode)?
                .unwrap_or(Priority(0)),
            per_message_flag: from
                .optional(present & 4 != 0, "per_message_flag", Decode::decode)?
                .unwrap_or_default(),
            deferred_delivery: from.optional(
                present & 2 != 0,
                "deferred_delivery",
                Decode::decode,
            )?,
            per_domain: from.optional(present & 1 != 0, "per_domain", Decode::decode)?,
            recipients: from.field("recipients", Decode::decode)?,
            trace: from.field("trace", Decode::decode)?,
        })
    }
}

impl Encode for MpduIdentifier<'_> {
    fn encode<S: Sink, W: Word>(&self, to: &mut Encoder<S, W>) -> Result<(), Error> {
        self.global_id.encode(to)?;
        self.local_id.encode(to)?;
        Ok(())
    }
}

impl<'a> Decode<'a> for MpduIdentifier<'a> {
    fn decode<S: Source<'a>, W: Word>(from: &mut Decoder<S, W>) -> Result<Self, Error> {
        Ok(MpduIdentifier {
            global_id: from.field("global_id", Decode::decode)?,
            local_id: from.field("local_id", Decode::decode)?,
        })
    }
}

impl Encode for ContentType {
    fn encode<S: Sink, W: Word>(&self, to: &mut Encoder<S, W>) -> Result<(), Error> {
        self.0.encode(to)
    }
}

impl<'a> Decode<'a> for ContentType {
    fn decode<S: Source<'a>, W: Word>(from: &mut Decoder<S, W>) -> Result<Self, Error> {
        Decode::decode(from).map(ContentType)
    }
}

impl Encode for UaContentId<'_> {
    fn encode<S: Sink, W: Word>(&self, to: &mut Encoder<S, W>) -> Result<(), Error> {
        self.0.encode(to)
    }
}

impl<'a> Decode<'a> for UaContentId<'a> {
    fn decode<S: Source<'a>, W: Word>(from: &mut Decoder<S, W>) -> Result<Self, Error> {
        Decode::decode(from).map(UaContentId)
    }
}

impl Encode for Priority {
    fn encode<S: Sink, W: Word>(&self, to: &mut Encoder<S, W>) -> Result<(), Error> {
        self.0.encode(to)
    }
}

impl<'a> Decode<'a> for Priority {
    fn decode<S: Source<'a>, W: Word>(from: &mut Decoder<S, W>) -> Result<Self, Error> {
        Decode::decode(from).map(Priority)
    }
}

impl Encode for PerMessageFlag<'_> {
    fn encode<S: Sink, W: Word>(&self, to: &mut Encoder<S, W>) -> Result<(), Error> {
        self.0.encode(to)
    }
}

impl<'a> Decode<'a> for PerMessageFlag<'a> {
    fn decode<S: Source<'a>, W: Word>(from: &mut Decoder<S, W>) -> Result<Self, Error> {
        Decode::decode(from).map(PerMessageFlag)
    }
}

impl Encode for PerDomainBilateralInfo<'_> {
    fn encode<S: Sink, W: Word>(&self, to: &mut Encoder<S, W>) -> Result<(), Error> {
        self.country.encode(to)?;
        self.admd.encode(to)?;
        self.info.encode(to)?;
        Ok(())
    }
}

impl<'a> Decode<'a> for PerDomainBilateralInfo<'a> {
    fn decode<S: Source<'a>, W: Word>(from: &mut Decoder<S, W>) -> Result<Self, Error> {
        Ok(PerDomainBilateralInfo {
            country: from.field("country", Decode::decode)?,
            admd: from.field("admd", Decode::decode)?,
            info: from.field("info", Decode::decode)?,
        })
    }
}

impl Encode for RecipientInfo<'_> {
    fn encode<S: Sink, W: Word>(&self, to: &mut Encoder<S, W>) -> Result<(), Error> {
        let present = u64::from(self.explicit_conversion.is_some());
        to.presence(present, 1)?;
        self.recipient.encode(to)?;
        self.extension_id.encode(to)?;
        self.per_recipient_flag.encode(to)?;
        if let Some(explicit_conversion) = &self.explicit_conversion {
            explicit_conversion.encode(to)?;
        }
        Ok(())
    }
}

impl<'a> Decode<'a> for RecipientInfo<'a> {
    fn decode<S: Source<'a>, W: Word>(from: &mut Decoder<S, W>) -> Result<Self, Error> {
        let present = from.presence(1)?;
        Ok(RecipientInfo {
            recipient: from.field("recipient", Decode::decode)?,
            extension_id: from.field("extension_id", Decode::decode)?,
            per_recipient_flag: from.field("per_recipient_flag", Decode::decode)?,
            explicit_conversion: from.optional(
                present & 1 != 0,
                "explicit_conversion",
                Decode::decode,
            )?,
        })
    }
}

impl Encode for TraceInformation<'_> {
    fn encode<S: Sink, W: Word>(&self, to: &mut Encoder<S, W>) -> Result<(), Error> {
        self.0.encode(to)
    }
}

impl<'a> Decode<'a> for TraceInformation<'a> {
    fn decode<S: Source<'a>, W: Word>(from: &mut Decoder<S, W>) -> Result<Self, Error> {
        Decode::decode(from).map(TraceInformation)
    }
}

impl Encode for Trace<'_> {
    fn encode<S: Sink, W: Word>(&self, to: &mut Encoder<S, W>) -> Result<(), Error> {
        self.domain_id.encode(to)?;
        self.domain_supplied.encode(to)?;
        Ok(())
    }
}

impl<'a> Decode<'a> for Trace<'a> {
    fn decode<S: Source<'a>, W: Word>(from: &mut Decoder<S, W>) -> Result<Self, Error> {
        Ok(Trace {
            domain_id: from.field("domain_id", Decode::decode)?,
            domain_supplied: from.field("domain_supplied", Decode::decode)?,
        })
    }
}

impl Encode for DomainSuppliedInfo<'_> {
    fn encode<S: Sink, W: Word>(&self, to: &mut Encoder<S, W>) -> Result<(), Error> {
        let present = u64::from(self.deferred.is_some()) << 2
            | u64::from(self.encoded_types.is_some()) << 1
            | u64::from(self.previous.is_some());
        to.presence(present, 3)?;
        self.arrival.encode(to)?;
        if let Some(deferred) = &self.deferred {
            deferred.encode(to)?;
        }
        self.action.encode(to)?;
        if let Some(encoded_types) = &self.encoded_types {
            encoded_types.encode(to)?;
        }
        if let Some(previous) = &self.previous {
            previous.encode(to)?;
        }
        Ok(())
    }
}

impl<'a> Decode<'a> for DomainSuppliedInfo<'a> {
    fn decode<S: Source<'a>, W: Word>(from: &mut Decoder<S, W>) -> Result<Self, Error> {
        let present = from.presence(3)?;
        Ok(DomainSuppliedInfo {
            arrival: from.field("arrival", Decode::decode)?,
            deferred: from.optional(present & 4 != 0, "deferred", Decode::decode)?,
            action: from.field("action", Decode::decode)?,
            encoded_types: from.optional(present & 2 != 0, "encoded_types", Decode::decode)?,
            previous: from.optional(present & 1 != 0, "previous", Decode::decode)?,
        })
    }
}

impl Encode for GlobalDomainIdentifier<'_> {
    fn encode<S: Sink, W: Word>(&self, to: &mut Encoder<S, W>) -> Result<(), Error> {
        let present = u64::from(self.prmd.is_some());
        to.presence(present, 1)?;
        self.country.encode(to)?;
        self.admd.encode(to)?;
        if let Some(prmd) = &self.prmd {
            prmd.encode(to)?;
        }
        Ok(())
    }
}

impl<'a> Decode<'a> for GlobalDomainIdentifier<'a> {
    fn decode<S: Source<'a>, W: Word>(from: &mut Decoder<S, W>) -> Result<Self, Error> {
        let present = from.presence(1)?;
        Ok(GlobalDomainIdentifier {
            country: from.field("country", Decode::decode)?,
            admd: from.field("admd", Decode::decode)?,
            prmd: from.optional(present & 1 != 0, "prmd", Decode::decode)?,
        })
    }
}

impl Encode for CountryName<'_> {
    fn encode<S: Sink, W: Word>(&self, to: &mut Encoder<S, W>) -> Result<(), Error> {
        self.0.encode(to)
    }
}

impl<'a> Decode<'a> for CountryName<'a> {
    fn decode<S: Source<'a>, W: Word>(from: &mut Decoder<S, W>) -> Result<Self, Error> {
        Decode::decode(from).map(CountryName)
    }
}

impl Encode for AdministrationDomainName<'_> {
    fn encode<S: Sink, W: Word>(&self, to: &mut Encoder<S, W>) -> Result<(), Error> {
        self.0.encode(to)
    }
}

impl<'a> Decode<'a> for AdministrationDomainName<'a> {
    fn decode<S: Source<'a>, W: Word>(from: &mut Decoder<S, W>) -> Result<Self, Error> {
        Decode::decode(from).map(AdministrationDomainName)
    }
}

impl Encode for Name<'_> {
    fn encode<S: Sink, W: Word>(&self, to: &mut Encoder<S, W>) -> Result<(), Error> {
        match self {
            Name::Numeric(value) => to.index(0).and_then(|()| value.encode(to)),
            Name::Printable(value) => to.index(1).and_then(|()| value.encode(to)),
        }
    }
}

impl<'a> Decode<'a> for Name<'a> {
    fn decode<S: Source<'a>, W: Word>(from: &mut Decoder<S, W>) -> Result<Self, Error> {
        match from.index()? {
            0 => from.field("numeric", Decode::decode).map(Name::Numeric),
            1 => from.field("printable", Decode::decode).map(Name::Printable),
            other => Err(from.unknown(other as i64, "Name")),
        }
    }
}

impl Encode for OrName<'_> {
    fn encode<S: Sink, W: Word>(&self, to: &mut Encoder<S, W>) -> Result<(), Error> {
        let present = u64::from(self.domain_defined.is_some());
        to.presence(present, 1)?;
        self.standard.encode(to)?;
        if let Some(domain_defined) = &self.domain_defined {
            domain_defined.encode(to)?;
        }
        Ok(())
    }
}

impl<'a> Decode<'a> for OrName<'a> {
    fn decode<S: Source<'a>, W: Word>(from: &mut Decoder<S, W>) -> Result<Self, Error> {
        let present = from.presence(1)?;
        Ok(OrName {
            standard: from.field("standard", Decode::decode)?,
            domain_defined: from.optional(present & 1 != 0, "domain_defined", Decode::decode)?,
        })
    }
}

impl Encode for StandardAttributeList<'_> {
    fn encode<S: Sink, W: Word>(&self, to: &mut Encoder<S, W>) -> Result<(), Error> {
        let present = u64::from(self.country.is_some()) << 8
            | u64::from(self.admd.is_some()) << 7
            | u64::from(self.x121.is_some()) << 6
            | u64::from(self.terminal_id.is_some()) << 5
            | u64::from(self.prmd.is_some()) << 4
            | u64::from(self.organization.is_some()) << 3
            | u64::from(self.ua_id.is_some()) << 2
            | u64::from(self.personal_name.is_some()) << 1
            | u64::from(self.org_unit.is_some());
        to.presence(present, 9)?;
        if let Some(country) = &self.country {
            country.encode(to)?;
        }
        if let Some(admd) = &self.admd {
            admd.encode(to)?;
        }
        if let Some(x121) = &self.x121 {
            x121.encode(to)?;
        }
        if let Some(terminal_id) = &self.terminal_id {
            terminal_id.encode(to)?;
        }
        if let Some(prmd) = &self.prmd {
            prmd.encode(to)?;
        }
        if let Some(organization) = &self.organization {
            organization.encode(to)?;
        }
        if let Some(ua_id) = &self.ua_id {
            ua_id.encode(to)?;
        }
        if let Some(personal_name) = &self.personal_name {
            personal_name.encode(to)?;
        }
        if let Some(org_unit) = &self.org_unit {
            org_unit.encode(to)?;
        }
        Ok(())
    }
}

impl<'a> Decode<'a> for StandardAttributeList<'a> {
    fn decode<S: Source<'a>, W: Word>(from: &mut Decoder<S, W>) -> Result<Self, Error> {
        let present = from.presence(9)?;
        Ok(StandardAttributeList {
            country: from.optional(present & 256 != 0, "country", Decode::decode)?,
            admd: from.optional(present & 128 != 0, "admd", Decode::decode)?,
            x121: from.optional(present & 64 != 0, "x121", Decode::decode)?,
            terminal_id: from.optional(present & 32 != 0, "terminal_id", Decode::decode)?,
            prmd: from.optional(present & 16 != 0, "prmd", Decode::decode)?,
            organization: from.optional(present & 8 != 0, "organization", Decode::decode)?,
            ua_id: from.optional(present & 4 != 0, "ua_id", Decode::decode)?,
            personal_name: from.optional(present & 2 != 0, "personal_name", Decode::decode)?,
            org_unit: from.optional(present & 1 != 0, "org_unit", Decode::decode)?,
        })
    }
}

impl Encode for DomainDefinedAttribute<'_> {
    fn encode<S: Sink, W: Word>(&self, to: &mut Encoder<S, W>) -> Result<(), Error> {
        self.kind.encode(to)?;
        self.value.encode(to)?;
        Ok(())
    }
}

impl<'a> Decode<'a> for DomainDefinedAttribute<'a> {
    fn decode<S: Source<'a>, W: Word>(from: &mut Decoder<S, W>) -> Result<Self, Error> {
        Ok(DomainDefinedAttribute {
            kind: from.field("kind", Decode::decode)?,
            value: from.field("value", Decode::decode)?,
        })
    }
}

impl Encode for PersonalName<'_> {
    fn encode<S: Sink, W: Word>(&self, to: &mut Encoder<S, W>) -> Result<(), Error> {
        let present = u64::from(self.given_name.is_some()) << 2
            | u64::from(self.initials.is_some()) << 1
            | u64::from(self.general_qualifier.is_some());
        to.presence(present, 3)?;
        self.surname.encode(to)?;
        if let Some(given_name) = &self.given_name {
            given_name.encode(to)?;
        }
        if let Some(initials) = &self.initials {
            initials.encode(to)?;
        }
        if let Some(general_qualifier) = &self.general_qualifier {
            general_qualifier.encode(to)?;
        }
        Ok(())
    }
}

impl<'a> Decode<'a> for PersonalName<'a> {
    fn decode<S: Source<'a>, W: Word>(from: &mut Decoder<S, W>) -> Result<Self, Error> {
        let present = from.presence(3)?;
        Ok(PersonalName {
            surname: from.field("surname", Decode::decode)?,
            given_name: from.optional(present & 4 != 0, "given_name", Decode::decode)?,
            initials: from.optional(present & 2 != 0, "initials", Decode::decode)?,
            general_qualifier: from.optional(
                present & 1 != 0,
                "general_qualifier",
                Decode::decode,
            )?,
        })
    }
}

impl Encode for EncodedInformationTypes<'_> {
    fn encode<S: Sink, W: Word>(&self, to: &mut Encoder<S, W>) -> Result<(), Error> {
        let present = u64::from(self.g3.is_some()) << 1 | u64::from(self.presentation.is_some());
        to.presence(present, 2)?;
        self.bits.encode(to)?;
        if let Some(g3) = &self.g3 {
            g3.encode(to)?;
        }
        if let Some(presentation) = &self.presentation {
            presentation.encode(to)?;
        }
        Ok(())
    }
}

impl<'a> Decode<'a> for EncodedInformationTypes<'a> {
    fn decode<S: Source<'a>, W: Word>(from: &mut Decoder<S, W>) -> Result<Self, Error> {
        let present = from.presence(2)?;
        Ok(EncodedInformationTypes {
            bits: from.field("bits", Decode::decode)?,
            g3: from.optional(present & 2 != 0, "g3", Decode::decode)?,
            presentation: from.optional(present & 1 != 0, "presentation", Decode::decode)?,
        })
    }
}
