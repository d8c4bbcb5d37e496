//! The BER of the names in them.

use super::*;
use fusewire_codec::Error;
use fusewire_codec::ber::{
    Decode, DecodeContents, Decoder, Encode, EncodeContents, Encoder, Header, Tag, Tagged,
};

impl Tagged for GlobalDomainIdentifier<'_> {
    const TAG: Tag = Tag::application(3);
    const CONSTRUCTED: bool = true;
}

impl Encode for GlobalDomainIdentifier<'_> {
    #[inline(always)]
    fn encode(&self, to: &mut Encoder<'_>) -> Result<(), Error> {
        self.encode_as(Self::TAG, to)
    }
}

impl<'a> Decode<'a> for GlobalDomainIdentifier<'a> {
    #[inline(always)]
    fn decode(from: &mut Decoder<'a>) -> Result<Self, Error> {
        Self::decode_as(Self::TAG, from)
    }
    fn begins_with(tag: Tag) -> bool {
        tag == Self::TAG
    }
}

impl EncodeContents for GlobalDomainIdentifier<'_> {
    fn encode_contents(&self, to: &mut Encoder<'_>) -> Result<(), Error> {
        if let Some(prmd) = &self.prmd {
            prmd.encode(to).map_err(|e| e.in_field("prmd"))?;
        }
        self.admd.encode(to).map_err(|e| e.in_field("admd"))?;
        self.country.encode(to).map_err(|e| e.in_field("country"))?;
        Ok(())
    }
}

impl<'a> DecodeContents<'a> for GlobalDomainIdentifier<'a> {
    fn decode_contents(from: &mut Decoder<'a>, header: Header) -> Result<Self, Error> {
        from.constructed(header, |from| {
            Ok(GlobalDomainIdentifier {
                country: from.required("country")?,
                admd: from.required("admd")?,
                prmd: from.optional("prmd")?,
            })
        })
    }
}

impl Tagged for CountryName<'_> {
    const TAG: Tag = Tag::application(1);
    const CONSTRUCTED: bool = true;
}

impl Encode for CountryName<'_> {
    #[inline(always)]
    fn encode(&self, to: &mut Encoder<'_>) -> Result<(), Error> {
        self.encode_as(Self::TAG, to)
    }
}

impl<'a> Decode<'a> for CountryName<'a> {
    #[inline(always)]
    fn decode(from: &mut Decoder<'a>) -> Result<Self, Error> {
        Self::decode_as(Self::TAG, from)
    }
    fn begins_with(tag: Tag) -> bool {
        tag == Self::TAG
    }
}

impl EncodeContents for CountryName<'_> {
    #[inline(always)]
    fn encode_contents(&self, to: &mut Encoder<'_>) -> Result<(), Error> {
        self.0.encode(to)
    }
}

impl<'a> DecodeContents<'a> for CountryName<'a> {
    #[inline(always)]
    fn decode_contents(from: &mut Decoder<'a>, header: Header) -> Result<Self, Error> {
        from.constructed(header, Decode::decode).map(CountryName)
    }
}

impl Tagged for AdministrationDomainName<'_> {
    const TAG: Tag = Tag::application(2);
    const CONSTRUCTED: bool = true;
}

impl Encode for AdministrationDomainName<'_> {
    #[inline(always)]
    fn encode(&self, to: &mut Encoder<'_>) -> Result<(), Error> {
        self.encode_as(Self::TAG, to)
    }
}

impl<'a> Decode<'a> for AdministrationDomainName<'a> {
    #[inline(always)]
    fn decode(from: &mut Decoder<'a>) -> Result<Self, Error> {
        Self::decode_as(Self::TAG, from)
    }
    fn begins_with(tag: Tag) -> bool {
        tag == Self::TAG
    }
}

impl EncodeContents for AdministrationDomainName<'_> {
    #[inline(always)]
    fn encode_contents(&self, to: &mut Encoder<'_>) -> Result<(), Error> {
        self.0.encode(to)
    }
}

impl<'a> DecodeContents<'a> for AdministrationDomainName<'a> {
    #[inline(always)]
    fn decode_contents(from: &mut Decoder<'a>, header: Header) -> Result<Self, Error> {
        from.constructed(header, Decode::decode).map(AdministrationDomainName)
    }
}

impl Encode for Name<'_> {
    #[inline(always)]
    fn encode(&self, to: &mut Encoder<'_>) -> Result<(), Error> {
        match self {
            Name::Numeric(value) => value.encode(to).map_err(|e| e.in_field("numeric")),
            Name::Printable(value) => value.encode(to).map_err(|e| e.in_field("printable")),
        }
    }
}

impl<'a> Decode<'a> for Name<'a> {
    #[inline(always)]
    fn decode(from: &mut Decoder<'a>) -> Result<Self, Error> {
        const NUMERIC: Tag = Tag::universal(18);
        const PRINTABLE: Tag = Tag::universal(19);
        match from.peek()? {
            NUMERIC => from.required("numeric").map(Name::Numeric),
            PRINTABLE => from.required("printable").map(Name::Printable),
            _ => Err(from.unknown("Name")),
        }
    }
    fn begins_with(tag: Tag) -> bool {
        tag == Tag::universal(18) || tag == Tag::universal(19)
    }
}

impl Tagged for OrName<'_> {
    const TAG: Tag = Tag::application(0);
    const CONSTRUCTED: bool = true;
}

impl Encode for OrName<'_> {
    #[inline(always)]
    fn encode(&self, to: &mut Encoder<'_>) -> Result<(), Error> {
        self.encode_as(Self::TAG, to)
    }
}

impl<'a> Decode<'a> for OrName<'a> {
    #[inline(always)]
    fn decode(from: &mut Decoder<'a>) -> Result<Self, Error> {
        Self::decode_as(Self::TAG, from)
    }
    fn begins_with(tag: Tag) -> bool {
        tag == Self::TAG
    }
}

impl EncodeContents for OrName<'_> {
    fn encode_contents(&self, to: &mut Encoder<'_>) -> Result<(), Error> {
        if let Some(domain_defined) = &self.domain_defined {
            domain_defined.encode(to).map_err(|e| e.in_field("domain_defined"))?;
        }
        self.standard.encode(to).map_err(|e| e.in_field("standard"))?;
        Ok(())
    }
}

impl<'a> DecodeContents<'a> for OrName<'a> {
    fn decode_contents(from: &mut Decoder<'a>, header: Header) -> Result<Self, Error> {
        from.constructed(header, |from| {
            Ok(OrName {
                standard: from.required("standard")?,
                domain_defined: from.optional("domain_defined")?,
            })
        })
    }
}

impl Tagged for StandardAttributeList<'_> {
    const TAG: Tag = Tag::universal(16);
    const CONSTRUCTED: bool = true;
}

impl Encode for StandardAttributeList<'_> {
    #[inline(always)]
    fn encode(&self, to: &mut Encoder<'_>) -> Result<(), Error> {
        self.encode_as(Self::TAG, to)
    }
}

impl<'a> Decode<'a> for StandardAttributeList<'a> {
    #[inline(always)]
    fn decode(from: &mut Decoder<'a>) -> Result<Self, Error> {
        Self::decode_as(Self::TAG, from)
    }
    fn begins_with(tag: Tag) -> bool {
        tag == Self::TAG
    }
}

impl EncodeContents for StandardAttributeList<'_> {
    fn encode_contents(&self, to: &mut Encoder<'_>) -> Result<(), Error> {
        if let Some(org_unit) = &self.org_unit {
            to.implicit(Tag::context(6), org_unit).map_err(|e| e.in_field("org_unit"))?;
        }
        if let Some(personal_name) = &self.personal_name {
            to.implicit(Tag::context(5), personal_name).map_err(|e| e.in_field("personal_name"))?;
        }
        if let Some(ua_id) = &self.ua_id {
            to.implicit(Tag::context(4), ua_id).map_err(|e| e.in_field("ua_id"))?;
        }
        if let Some(organization) = &self.organization {
            to.implicit(Tag::context(3), organization).map_err(|e| e.in_field("organization"))?;
        }
        if let Some(prmd) = &self.prmd {
            to.explicit(Tag::context(2), prmd).map_err(|e| e.in_field("prmd"))?;
        }
        if let Some(terminal_id) = &self.terminal_id {
            to.implicit(Tag::context(1), terminal_id).map_err(|e| e.in_field("terminal_id"))?;
        }
        if let Some(x121) = &self.x121 {
            to.implicit(Tag::context(0), x121).map_err(|e| e.in_field("x121"))?;
        }
        if let Some(admd) = &self.admd {
            admd.encode(to).map_err(|e| e.in_field("admd"))?;
        }
        if let Some(country) = &self.country {
            country.encode(to).map_err(|e| e.in_field("country"))?;
        }
        Ok(())
    }
}

impl<'a> DecodeContents<'a> for StandardAttributeList<'a> {
    fn decode_contents(from: &mut Decoder<'a>, header: Header) -> Result<Self, Error> {
        from.constructed(header, |from| {
            Ok(StandardAttributeList {
                country: from.optional("country")?,
                admd: from.optional("admd")?,
                x121: from.optional_implicit("x121", Tag::context(0))?,
                terminal_id: from.optional_implicit("terminal_id", Tag::context(1))?,
                prmd: from.optional_explicit("prmd", Tag::context(2))?,
                organization: from.optional_implicit("organization", Tag::context(3))?,
                ua_id: from.optional_implicit("ua_id", Tag::context(4))?,
                personal_name: from.optional_implicit("personal_name", Tag::context(5))?,
                org_unit: from.optional_implicit("org_unit", Tag::context(6))?,
            })
        })
    }
}

impl Tagged for DomainDefinedAttribute<'_> {
    const TAG: Tag = Tag::universal(16);
    const CONSTRUCTED: bool = true;
}

impl Encode for DomainDefinedAttribute<'_> {
    #[inline(always)]
    fn encode(&self, to: &mut Encoder<'_>) -> Result<(), Error> {
        self.encode_as(Self::TAG, to)
    }
}

impl<'a> Decode<'a> for DomainDefinedAttribute<'a> {
    #[inline(always)]
    fn decode(from: &mut Decoder<'a>) -> Result<Self, Error> {
        Self::decode_as(Self::TAG, from)
    }
    fn begins_with(tag: Tag) -> bool {
        tag == Self::TAG
    }
}

impl EncodeContents for DomainDefinedAttribute<'_> {
    fn encode_contents(&self, to: &mut Encoder<'_>) -> Result<(), Error> {
        self.value.encode(to).map_err(|e| e.in_field("value"))?;
        self.kind.encode(to).map_err(|e| e.in_field("kind"))?;
        Ok(())
    }
}

impl<'a> DecodeContents<'a> for DomainDefinedAttribute<'a> {
    fn decode_contents(from: &mut Decoder<'a>, header: Header) -> Result<Self, Error> {
        from.constructed(header, |from| {
            Ok(DomainDefinedAttribute {
                kind: from.required("kind")?,
                value: from.required("value")?,
            })
        })
    }
}

impl Tagged for PersonalName<'_> {
    const TAG: Tag = Tag::universal(17);
    const CONSTRUCTED: bool = true;
}

impl Encode for PersonalName<'_> {
    #[inline(always)]
    fn encode(&self, to: &mut Encoder<'_>) -> Result<(), Error> {
        self.encode_as(Self::TAG, to)
    }
}

impl<'a> Decode<'a> for PersonalName<'a> {
    #[inline(always)]
    fn decode(from: &mut Decoder<'a>) -> Result<Self, Error> {
        Self::decode_as(Self::TAG, from)
    }
    fn begins_with(tag: Tag) -> bool {
        tag == Self::TAG
    }
}

impl EncodeContents for PersonalName<'_> {
    fn encode_contents(&self, to: &mut Encoder<'_>) -> Result<(), Error> {
        if let Some(general_qualifier) = &self.general_qualifier {
            to.implicit(Tag::context(3), general_qualifier)
                .map_err(|e| e.in_field("general_qualifier"))?;
        }
        if let Some(initials) = &self.initials {
            to.implicit(Tag::context(2), initials).map_err(|e| e.in_field("initials"))?;
        }
        if let Some(given_name) = &self.given_name {
            to.implicit(Tag::context(1), given_name).map_err(|e| e.in_field("given_name"))?;
        }
        to.implicit(Tag::context(0), &self.surname).map_err(|e| e.in_field("surname"))?;
        Ok(())
    }
}

impl<'a> DecodeContents<'a> for PersonalName<'a> {
    fn decode_contents(from: &mut Decoder<'a>, header: Header) -> Result<Self, Error> {
        const TAG_SURNAME: Tag = Tag::context(0);
        const TAG_GIVEN_NAME: Tag = Tag::context(1);
        const TAG_INITIALS: Tag = Tag::context(2);
        const TAG_GENERAL_QUALIFIER: Tag = Tag::context(3);
        from.constructed(header, |from| {
            let mut surname = from.optional_implicit("surname", Tag::context(0))?;
            let mut given_name = from.optional_implicit("given_name", Tag::context(1))?;
            let mut initials = from.optional_implicit("initials", Tag::context(2))?;
            let mut general_qualifier =
                from.optional_implicit("general_qualifier", Tag::context(3))?;
            while from.out_of_order()? {
                match from.peek()? {
                    TAG_SURNAME => from.once(&mut surname, "surname", |from| {
                        DecodeContents::decode_as(TAG_SURNAME, from)
                    })?,
                    TAG_GIVEN_NAME => from.once(&mut given_name, "given_name", |from| {
                        DecodeContents::decode_as(TAG_GIVEN_NAME, from)
                    })?,
                    TAG_INITIALS => from.once(&mut initials, "initials", |from| {
                        DecodeContents::decode_as(TAG_INITIALS, from)
                    })?,
                    TAG_GENERAL_QUALIFIER => {
                        from.once(&mut general_qualifier, "general_qualifier", |from| {
                            DecodeContents::decode_as(TAG_GENERAL_QUALIFIER, from)
                        })?
                    }
                    _ => return Err(from.unknown("PersonalName")),
                }
            }
            Ok(PersonalName {
                surname: surname.ok_or_else(|| from.missing("surname"))?,
                given_name,
                initials,
                general_qualifier,
            })
        })
    }
}

impl Tagged for EncodedInformationTypes<'_> {
    const TAG: Tag = Tag::application(5);
    const CONSTRUCTED: bool = true;
}

impl Encode for EncodedInformationTypes<'_> {
    #[inline(always)]
    fn encode(&self, to: &mut Encoder<'_>) -> Result<(), Error> {
        self.encode_as(Self::TAG, to)
    }
}

impl<'a> Decode<'a> for EncodedInformationTypes<'a> {
    #[inline(always)]
    fn decode(from: &mut Decoder<'a>) -> Result<Self, Error> {
        Self::decode_as(Self::TAG, from)
    }
    fn begins_with(tag: Tag) -> bool {
        tag == Self::TAG
    }
}

impl EncodeContents for EncodedInformationTypes<'_> {
    fn encode_contents(&self, to: &mut Encoder<'_>) -> Result<(), Error> {
        if let Some(presentation) = &self.presentation {
            to.implicit(Tag::context(3), presentation).map_err(|e| e.in_field("presentation"))?;
        }
        if let Some(g3) = &self.g3 {
            to.implicit(Tag::context(1), g3).map_err(|e| e.in_field("g3"))?;
        }
        to.implicit(Tag::context(0), &self.bits).map_err(|e| e.in_field("bits"))?;
        Ok(())
    }
}

impl<'a> DecodeContents<'a> for EncodedInformationTypes<'a> {
    fn decode_contents(from: &mut Decoder<'a>, header: Header) -> Result<Self, Error> {
        const TAG_BITS: Tag = Tag::context(0);
        const TAG_G3: Tag = Tag::context(1);
        const TAG_PRESENTATION: Tag = Tag::context(3);
        from.constructed(header, |from| {
            let mut bits = from.optional_implicit("bits", Tag::context(0))?;
            let mut g3 = from.optional_implicit("g3", Tag::context(1))?;
            let mut presentation = from.optional_implicit("presentation", Tag::context(3))?;
            while from.out_of_order()? {
                match from.peek()? {
                    TAG_BITS => from.once(&mut bits, "bits", |from| {
                        DecodeContents::decode_as(TAG_BITS, from)
                    })?,
                    TAG_G3 => {
                        from.once(&mut g3, "g3", |from| DecodeContents::decode_as(TAG_G3, from))?
                    }
                    TAG_PRESENTATION => from.once(&mut presentation, "presentation", |from| {
                        DecodeContents::decode_as(TAG_PRESENTATION, from)
                    })?,
                    _ => return Err(from.unknown("EncodedInformationTypes")),
                }
            }
            Ok(EncodedInformationTypes {
                bits: bits.ok_or_else(|| from.missing("bits"))?,
                g3,
                presentation,
            })
        })
    }
}
