//! Their BER, but for that of the names in them.

use super::*;
use fusewire_codec::Error;
use fusewire_codec::ber::{
    Decode, DecodeContents, Decoder, Encode, EncodeContents, Encoder, Header, Tag, Tagged,
};

impl Encode for Mpdu<'_> {
    #[inline(always)]
    fn encode(&self, to: &mut Encoder<'_>) -> Result<(), Error> {
        match self {
            Mpdu::User(value) => {
                to.implicit(Tag::context(0), value).map_err(|e| e.in_field("user"))
            }
        }
    }
}

impl<'a> Decode<'a> for Mpdu<'a> {
    #[inline(always)]
    fn decode(from: &mut Decoder<'a>) -> Result<Self, Error> {
        const USER: Tag = Tag::context(0);
        match from.peek()? {
            USER => from.implicit("user", USER).map(Mpdu::User),
            _ => Err(from.unknown("Mpdu")),
        }
    }
    fn begins_with(tag: Tag) -> bool {
        tag == Tag::context(0)
    }
}

impl Tagged for UserMpdu<'_> {
    const TAG: Tag = Tag::universal(16);
    const CONSTRUCTED: bool = true;
}

impl Encode for UserMpdu<'_> {
    #[inline(always)]
    fn encode(&self, to: &mut Encoder<'_>) -> Result<(), Error> {
        self.encode_as(Self::TAG, to)
    }
}

impl<'a> Decode<'a> for UserMpdu<'a> {
    #[inline(always)]
    fn decode(from: &mut Decoder<'a>) -> Result<Self, Error> {
        Self::decode_as(Self::TAG, from)
    }
    fn begins_with(tag: Tag) -> bool {
        tag == Self::TAG
    }
}

impl EncodeContents for UserMpdu<'_> {
    fn encode_contents(&self, to: &mut Encoder<'_>) -> Result<(), Error> {
        self.content.encode(to).map_err(|e| e.in_field("content"))?;
        self.envelope.encode(to).map_err(|e| e.in_field("envelope"))?;
        Ok(())
    }
}

impl<'a> DecodeContents<'a> for UserMpdu<'a> {
    fn decode_contents(from: &mut Decoder<'a>, header: Header) -> Result<Self, Error> {
        from.constructed(header, |from| {
            Ok(UserMpdu {
                envelope: from.required("envelope")?,
                content: from.required("content")?,
            })
        })
    }
}

impl Tagged for UmpduEnvelope<'_> {
    const TAG: Tag = Tag::universal(17);
    const CONSTRUCTED: bool = true;
}

impl Encode for UmpduEnvelope<'_> {
    #[inline(always)]
    fn encode(&self, to: &mut Encoder<'_>) -> Result<(), Error> {
        self.encode_as(Self::TAG, to)
    }
}

impl<'a> Decode<'a> for UmpduEnvelope<'a> {
    #[inline(always)]
    fn decode(from: &mut Decoder<'a>) -> Result<Self, Error> {
        Self::decode_as(Self::TAG, from)
    }
    fn begins_with(tag: Tag) -> bool {
        tag == Self::TAG
    }
}

impl EncodeContents for UmpduEnvelope<'_> {
    fn encode_contents(&self, to: &mut Encoder<'_>) -> Result<(), Error> {
        to.implicit(Tag::context(2), &self.recipients).map_err(|e| e.in_field("recipients"))?;
        if let Some(per_domain) = &self.per_domain {
            to.implicit(Tag::context(1), per_domain).map_err(|e| e.in_field("per_domain"))?;
        }
        if let Some(deferred_delivery) = &self.deferred_delivery {
            to.implicit(Tag::context(0), deferred_delivery)
                .map_err(|e| e.in_field("deferred_delivery"))?;
        }
        if let Some(ua_content_id) = &self.ua_content_id {
            ua_content_id.encode(to).map_err(|e| e.in_field("ua_content_id"))?;
        }
        self.trace.encode(to).map_err(|e| e.in_field("trace"))?;
        if self.per_message_flag != PerMessageFlag::default() {
            self.per_message_flag.encode(to).map_err(|e| e.in_field("per_message_flag"))?;
        }
        if self.priority != Priority(0) {
            self.priority.encode(to).map_err(|e| e.in_field("priority"))?;
        }
        self.content_type.encode(to).map_err(|e| e.in_field("content_type"))?;
        if let Some(encoded_types) = &self.encoded_types {
            encoded_types.encode(to).map_err(|e| e.in_field("encoded_types"))?;
        }
        self.mpdu_id.encode(to).map_err(|e| e.in_field("mpdu_id"))?;
        self.originator.encode(to).map_err(|e| e.in_field("originator"))?;
        Ok(())
    }
}

impl<'a> DecodeContents<'a> for UmpduEnvelope<'a> {
    fn decode_contents(from: &mut Decoder<'a>, header: Header) -> Result<Self, Error> {
        const TAG_ORIGINATOR: Tag = Tag::application(0);
        const TAG_MPDU_ID: Tag = Tag::application(4);
        const TAG_ENCODED_TYPES: Tag = Tag::application(5);
        const TAG_CONTENT_TYPE: Tag = Tag::application(6);
        const TAG_PRIORITY: Tag = Tag::application(7);
        const TAG_PER_MESSAGE_FLAG: Tag = Tag::application(8);
        const TAG_TRACE: Tag = Tag::application(9);
        const TAG_UA_CONTENT_ID: Tag = Tag::application(10);
        const TAG_DEFERRED_DELIVERY: Tag = Tag::context(0);
        const TAG_PER_DOMAIN: Tag = Tag::context(1);
        const TAG_RECIPIENTS: Tag = Tag::context(2);
        from.constructed(header, |from| {
            let mut originator = from.optional("originator")?;
            let mut mpdu_id = from.optional("mpdu_id")?;
            let mut encoded_types = from.optional("encoded_types")?;
            let mut content_type = from.optional("content_type")?;
            let mut priority = from.optional("priority")?;
            let mut per_message_flag = from.optional("per_message_flag")?;
            let mut trace = from.optional("trace")?;
            let mut ua_content_id = from.optional("ua_content_id")?;
            let mut deferred_delivery =
                from.optional_implicit("deferred_delivery", Tag::context(0))?;
            let mut per_domain = from.optional_implicit("per_domain", Tag::context(1))?;
            let mut recipients = from.optional_implicit("recipients", Tag::context(2))?;
            while from.out_of_order()? {
                match from.peek()? {
                    TAG_ORIGINATOR => from.once(&mut originator, "originator", Decode::decode)?,
                    TAG_MPDU_ID => from.once(&mut mpdu_id, "mpdu_id", Decode::decode)?,
                    TAG_ENCODED_TYPES => {
                        from.once(&mut encoded_types, "encoded_types", Decode::decode)?
                    }
                    TAG_CONTENT_TYPE => {
                        from.once(&mut content_type, "content_type", Decode::decode)?
                    }
                    TAG_PRIORITY => from.once(&mut priority, "priority", Decode::decode)?,
                    TAG_PER_MESSAGE_FLAG => {
                        from.once(&mut per_message_flag, "per_message_flag", Decode::decode)?
                    }
                    TAG_TRACE => from.once(&mut trace, "trace", Decode::decode)?,
                    TAG_UA_CONTENT_ID => {
                        from.once(&mut ua_content_id, "ua_content_id", Decode::decode)?
                    }
                    TAG_DEFERRED_DELIVERY => {
                        from.once(&mut deferred_delivery, "deferred_delivery", |from| {
                            DecodeContents::decode_as(TAG_DEFERRED_DELIVERY, from)
                        })?
                    }
                    TAG_PER_DOMAIN => from.once(&mut per_domain, "per_domain", |from| {
                        DecodeContents::decode_as(TAG_PER_DOMAIN, from)
                    })?,
                    TAG_RECIPIENTS => from.once(&mut recipients, "recipients", |from| {
                        DecodeContents::decode_as(TAG_RECIPIENTS, from)
                    })?,
                    _ => return Err(from.unknown("UmpduEnvelope")),
                }
            }
            Ok(UmpduEnvelope {
                mpdu_id: mpdu_id.ok_or_else(|| from.missing("mpdu_id"))?,
                originator: originator.ok_or_else(|| from.missing("originator"))?,
                encoded_types,
                content_type: content_type.ok_or_else(|| from.missing("content_type"))?,
                ua_content_id,
                priority: from.unless("priority", priority, Priority(0))?,
                per_message_flag: from.unless(
                    "per_message_flag",
                    per_message_flag,
                    PerMessageFlag::default(),
                )?,
                deferred_delivery,
                per_domain,
                recipients: recipients.ok_or_else(|| from.missing("recipients"))?,
                trace: trace.ok_or_else(|| from.missing("trace"))?,
            })
        })
    }
}

impl Tagged for MpduIdentifier<'_> {
    const TAG: Tag = Tag::application(4);
    const CONSTRUCTED: bool = true;
}

impl Encode for MpduIdentifier<'_> {
    #[inline(always)]
    fn encode(&self, to: &mut Encoder<'_>) -> Result<(), Error> {
        self.encode_as(Self::TAG, to)
    }
}

impl<'a> Decode<'a> for MpduIdentifier<'a> {
    #[inline(always)]
    fn decode(from: &mut Decoder<'a>) -> Result<Self, Error> {
        Self::decode_as(Self::TAG, from)
    }
    fn begins_with(tag: Tag) -> bool {
        tag == Self::TAG
    }
}

impl EncodeContents for MpduIdentifier<'_> {
    fn encode_contents(&self, to: &mut Encoder<'_>) -> Result<(), Error> {
        self.local_id.encode(to).map_err(|e| e.in_field("local_id"))?;
        self.global_id.encode(to).map_err(|e| e.in_field("global_id"))?;
        Ok(())
    }
}

impl<'a> DecodeContents<'a> for MpduIdentifier<'a> {
    fn decode_contents(from: &mut Decoder<'a>, header: Header) -> Result<Self, Error> {
        from.constructed(header, |from| {
            Ok(MpduIdentifier {
                global_id: from.required("global_id")?,
                local_id: from.required("local_id")?,
            })
        })
    }
}

impl Tagged for ContentType {
    const TAG: Tag = Tag::application(6);
    const CONSTRUCTED: bool = <i64 as Tagged>::CONSTRUCTED;
}

impl Encode for ContentType {
    #[inline(always)]
    fn encode(&self, to: &mut Encoder<'_>) -> Result<(), Error> {
        self.encode_as(Self::TAG, to)
    }
}

impl<'a> Decode<'a> for ContentType {
    #[inline(always)]
    fn decode(from: &mut Decoder<'a>) -> Result<Self, Error> {
        Self::decode_as(Self::TAG, from)
    }
    fn begins_with(tag: Tag) -> bool {
        tag == Self::TAG
    }
}

impl EncodeContents for ContentType {
    fn encode_contents(&self, to: &mut Encoder<'_>) -> Result<(), Error> {
        self.0.encode_contents(to)
    }
    #[inline(always)]
    fn encode_as(&self, tag: Tag, to: &mut Encoder<'_>) -> Result<(), Error> {
        to.integer(tag, self.0)
    }
}

impl<'a> DecodeContents<'a> for ContentType {
    #[inline(always)]
    fn decode_contents(from: &mut Decoder<'a>, header: Header) -> Result<Self, Error> {
        DecodeContents::decode_contents(from, header).map(ContentType)
    }
}

impl Tagged for UaContentId<'_> {
    const TAG: Tag = Tag::application(10);
    const CONSTRUCTED: bool = <PrintableString<'_> as Tagged>::CONSTRUCTED;
}

impl Encode for UaContentId<'_> {
    #[inline(always)]
    fn encode(&self, to: &mut Encoder<'_>) -> Result<(), Error> {
        self.encode_as(Self::TAG, to)
    }
}

impl<'a> Decode<'a> for UaContentId<'a> {
    #[inline(always)]
    fn decode(from: &mut Decoder<'a>) -> Result<Self, Error> {
        Self::decode_as(Self::TAG, from)
    }
    fn begins_with(tag: Tag) -> bool {
        tag == Self::TAG
    }
}

impl EncodeContents for UaContentId<'_> {
    fn encode_contents(&self, to: &mut Encoder<'_>) -> Result<(), Error> {
        self.0.encode_contents(to)
    }
    #[inline(always)]
    fn encode_as(&self, tag: Tag, to: &mut Encoder<'_>) -> Result<(), Error> {
        self.0.encode_as(tag, to)
    }
}

impl<'a> DecodeContents<'a> for UaContentId<'a> {
    #[inline(always)]
    fn decode_contents(from: &mut Decoder<'a>, header: Header) -> Result<Self, Error> {
        DecodeContents::decode_contents(from, header).map(UaContentId)
    }
}

impl Tagged for Priority {
    const TAG: Tag = Tag::application(7);
    const CONSTRUCTED: bool = <i64 as Tagged>::CONSTRUCTED;
}

impl Encode for Priority {
    #[inline(always)]
    fn encode(&self, to: &mut Encoder<'_>) -> Result<(), Error> {
        self.encode_as(Self::TAG, to)
    }
}

impl<'a> Decode<'a> for Priority {
    #[inline(always)]
    fn decode(from: &mut Decoder<'a>) -> Result<Self, Error> {
        Self::decode_as(Self::TAG, from)
    }
    fn begins_with(tag: Tag) -> bool {
        tag == Self::TAG
    }
}

impl EncodeContents for Priority {
    fn encode_contents(&self, to: &mut Encoder<'_>) -> Result<(), Error> {
        self.0.encode_contents(to)
    }
    #[inline(always)]
    fn encode_as(&self, tag: Tag, to: &mut Encoder<'_>) -> Result<(), Error> {
        to.integer(tag, self.0)
    }
}

impl<'a> DecodeContents<'a> for Priority {
    #[inline(always)]
    fn decode_contents(from: &mut Decoder<'a>, header: Header) -> Result<Self, Error> {
        DecodeContents::decode_contents(from, header).map(Priority)
    }
}

impl Tagged for PerMessageFlag<'_> {
    const TAG: Tag = Tag::application(8);
    const CONSTRUCTED: bool = <BitString<'_> as Tagged>::CONSTRUCTED;
}

impl Encode for PerMessageFlag<'_> {
    #[inline(always)]
    fn encode(&self, to: &mut Encoder<'_>) -> Result<(), Error> {
        self.encode_as(Self::TAG, to)
    }
}

impl<'a> Decode<'a> for PerMessageFlag<'a> {
    #[inline(always)]
    fn decode(from: &mut Decoder<'a>) -> Result<Self, Error> {
        Self::decode_as(Self::TAG, from)
    }
    fn begins_with(tag: Tag) -> bool {
        tag == Self::TAG
    }
}

impl EncodeContents for PerMessageFlag<'_> {
    fn encode_contents(&self, to: &mut Encoder<'_>) -> Result<(), Error> {
        self.0.encode_contents(to)
    }
    #[inline(always)]
    fn encode_as(&self, tag: Tag, to: &mut Encoder<'_>) -> Result<(), Error> {
        self.0.encode_as(tag, to)
    }
}

impl<'a> DecodeContents<'a> for PerMessageFlag<'a> {
    #[inline(always)]
    fn decode_contents(from: &mut Decoder<'a>, header: Header) -> Result<Self, Error> {
        DecodeContents::decode_contents(from, header).map(PerMessageFlag)
    }
}

impl Tagged for PerDomainBilateralInfo<'_> {
    const TAG: Tag = Tag::universal(16);
    const CONSTRUCTED: bool = true;
}

impl Encode for PerDomainBilateralInfo<'_> {
    #[inline(always)]
    fn encode(&self, to: &mut Encoder<'_>) -> Result<(), Error> {
        self.encode_as(Self::TAG, to)
    }
}

impl<'a> Decode<'a> for PerDomainBilateralInfo<'a> {
    #[inline(always)]
    fn decode(from: &mut Decoder<'a>) -> Result<Self, Error> {
        Self::decode_as(Self::TAG, from)
    }
    fn begins_with(tag: Tag) -> bool {
        tag == Self::TAG
    }
}

impl EncodeContents for PerDomainBilateralInfo<'_> {
    fn encode_contents(&self, to: &mut Encoder<'_>) -> Result<(), Error> {
        self.info.encode(to).map_err(|e| e.in_field("info"))?;
        self.admd.encode(to).map_err(|e| e.in_field("admd"))?;
        self.country.encode(to).map_err(|e| e.in_field("country"))?;
        Ok(())
    }
}

impl<'a> DecodeContents<'a> for PerDomainBilateralInfo<'a> {
    fn decode_contents(from: &mut Decoder<'a>, header: Header) -> Result<Self, Error> {
        from.constructed(header, |from| {
            Ok(PerDomainBilateralInfo {
                country: from.required("country")?,
                admd: from.required("admd")?,
                info: from.required("info")?,
            })
        })
    }
}

impl Tagged for RecipientInfo<'_> {
    const TAG: Tag = Tag::universal(17);
    const CONSTRUCTED: bool = true;
}

impl Encode for RecipientInfo<'_> {
    #[inline(always)]
    fn encode(&self, to: &mut Encoder<'_>) -> Result<(), Error> {
        self.encode_as(Self::TAG, to)
    }
}

impl<'a> Decode<'a> for RecipientInfo<'a> {
    #[inline(always)]
    fn decode(from: &mut Decoder<'a>) -> Result<Self, Error> {
        Self::decode_as(Self::TAG, from)
    }
    fn begins_with(tag: Tag) -> bool {
        tag == Self::TAG
    }
}

impl EncodeContents for RecipientInfo<'_> {
    fn encode_contents(&self, to: &mut Encoder<'_>) -> Result<(), Error> {
        if let Some(explicit_conversion) = &self.explicit_conversion {
            to.implicit(Tag::context(2), explicit_conversion)
                .map_err(|e| e.in_field("explicit_conversion"))?;
        }
        to.implicit(Tag::context(1), &self.per_recipient_flag)
            .map_err(|e| e.in_field("per_recipient_flag"))?;
        to.implicit(Tag::context(0), &self.extension_id).map_err(|e| e.in_field("extension_id"))?;
        self.recipient.encode(to).map_err(|e| e.in_field("recipient"))?;
        Ok(())
    }
}

impl<'a> DecodeContents<'a> for RecipientInfo<'a> {
    fn decode_contents(from: &mut Decoder<'a>, header: Header) -> Result<Self, Error> {
        const TAG_RECIPIENT: Tag = Tag::application(0);
        const TAG_EXTENSION_ID: Tag = Tag::context(0);
        const TAG_PER_RECIPIENT_FLAG: Tag = Tag::context(1);
        const TAG_EXPLICIT_CONVERSION: Tag = Tag::context(2);
        from.constructed(header, |from| {
            let mut recipient = from.optional("recipient")?;
            let mut extension_id = from.optional_implicit("extension_id", Tag::context(0))?;
            let mut per_recipient_flag =
                from.optional_implicit("per_recipient_flag", Tag::context(1))?;
            let mut explicit_conversion =
                from.optional_implicit("explicit_conversion", Tag::context(2))?;
            while from.out_of_order()? {
                match from.peek()? {
                    TAG_RECIPIENT => from.once(&mut recipient, "recipient", Decode::decode)?,
                    TAG_EXTENSION_ID => from.once(&mut extension_id, "extension_id", |from| {
                        DecodeContents::decode_as(TAG_EXTENSION_ID, from)
                    })?,
                    TAG_PER_RECIPIENT_FLAG => {
                        from.once(&mut per_recipient_flag, "per_recipient_flag", |from| {
                            DecodeContents::decode_as(TAG_PER_RECIPIENT_FLAG, from)
                        })?
                    }
                    TAG_EXPLICIT_CONVERSION => {
                        from.once(&mut explicit_conversion, "explicit_conversion", |from| {
                            DecodeContents::decode_as(TAG_EXPLICIT_CONVERSION, from)
                        })?
                    }
                    _ => return Err(from.unknown("RecipientInfo")),
                }
            }
            Ok(RecipientInfo {
                recipient: recipient.ok_or_else(|| from.missing("recipient"))?,
                extension_id: extension_id.ok_or_else(|| from.missing("extension_id"))?,
                per_recipient_flag: per_recipient_flag
                    .ok_or_else(|| from.missing("per_recipient_flag"))?,
                explicit_conversion,
            })
        })
    }
}

impl Tagged for TraceInformation<'_> {
    const TAG: Tag = Tag::application(9);
    const CONSTRUCTED: bool = <Vec<Trace<'_>> as Tagged>::CONSTRUCTED;
}

impl Encode for TraceInformation<'_> {
    #[inline(always)]
    fn encode(&self, to: &mut Encoder<'_>) -> Result<(), Error> {
        self.encode_as(Self::TAG, to)
    }
}

impl<'a> Decode<'a> for TraceInformation<'a> {
    #[inline(always)]
    fn decode(from: &mut Decoder<'a>) -> Result<Self, Error> {
        Self::decode_as(Self::TAG, from)
    }
    fn begins_with(tag: Tag) -> bool {
        tag == Self::TAG
    }
}

impl EncodeContents for TraceInformation<'_> {
    fn encode_contents(&self, to: &mut Encoder<'_>) -> Result<(), Error> {
        self.0.encode_contents(to)
    }
    #[inline(always)]
    fn encode_as(&self, tag: Tag, to: &mut Encoder<'_>) -> Result<(), Error> {
        self.0.encode_as(tag, to)
    }
}

impl<'a> DecodeContents<'a> for TraceInformation<'a> {
    #[inline(always)]
    fn decode_contents(from: &mut Decoder<'a>, header: Header) -> Result<Self, Error> {
        DecodeContents::decode_contents(from, header).map(TraceInformation)
    }
}

impl Tagged for Trace<'_> {
    const TAG: Tag = Tag::universal(16);
    const CONSTRUCTED: bool = true;
}

impl Encode for Trace<'_> {
    #[inline(always)]
    fn encode(&self, to: &mut Encoder<'_>) -> Result<(), Error> {
        self.encode_as(Self::TAG, to)
    }
}

impl<'a> Decode<'a> for Trace<'a> {
    #[inline(always)]
    fn decode(from: &mut Decoder<'a>) -> Result<Self, Error> {
        Self::decode_as(Self::TAG, from)
    }
    fn begins_with(tag: Tag) -> bool {
        tag == Self::TAG
    }
}

impl EncodeContents for Trace<'_> {
    fn encode_contents(&self, to: &mut Encoder<'_>) -> Result<(), Error> {
        self.domain_supplied.encode(to).map_err(|e| e.in_field("domain_supplied"))?;
        self.domain_id.encode(to).map_err(|e| e.in_field("domain_id"))?;
        Ok(())
    }
}

impl<'a> DecodeContents<'a> for Trace<'a> {
    fn decode_contents(from: &mut Decoder<'a>, header: Header) -> Result<Self, Error> {
        from.constructed(header, |from| {
            Ok(Trace {
                domain_id: from.required("domain_id")?,
                domain_supplied: from.required("domain_supplied")?,
            })
        })
    }
}

impl Tagged for DomainSuppliedInfo<'_> {
    const TAG: Tag = Tag::universal(17);
    const CONSTRUCTED: bool = true;
}

impl Encode for DomainSuppliedInfo<'_> {
    #[inline(always)]
    fn encode(&self, to: &mut Encoder<'_>) -> Result<(), Error> {
        self.encode_as(Self::TAG, to)
    }
}

impl<'a> Decode<'a> for DomainSuppliedInfo<'a> {
    #[inline(always)]
    fn decode(from: &mut Decoder<'a>) -> Result<Self, Error> {
        Self::decode_as(Self::TAG, from)
    }
    fn begins_with(tag: Tag) -> bool {
        tag == Self::TAG
    }
}

impl EncodeContents for DomainSuppliedInfo<'_> {
    fn encode_contents(&self, to: &mut Encoder<'_>) -> Result<(), Error> {
        to.implicit(Tag::context(2), &self.action).map_err(|e| e.in_field("action"))?;
        if let Some(deferred) = &self.deferred {
            to.implicit(Tag::context(1), deferred).map_err(|e| e.in_field("deferred"))?;
        }
        to.implicit(Tag::context(0), &self.arrival).map_err(|e| e.in_field("arrival"))?;
        if let Some(encoded_types) = &self.encoded_types {
            encoded_types.encode(to).map_err(|e| e.in_field("encoded_types"))?;
        }
        if let Some(previous) = &self.previous {
            previous.encode(to).map_err(|e| e.in_field("previous"))?;
        }
        Ok(())
    }
}

impl<'a> DecodeContents<'a> for DomainSuppliedInfo<'a> {
    fn decode_contents(from: &mut Decoder<'a>, header: Header) -> Result<Self, Error> {
        const TAG_PREVIOUS: Tag = Tag::application(3);
        const TAG_ENCODED_TYPES: Tag = Tag::application(5);
        const TAG_ARRIVAL: Tag = Tag::context(0);
        const TAG_DEFERRED: Tag = Tag::context(1);
        const TAG_ACTION: Tag = Tag::context(2);
        from.constructed(header, |from| {
            let mut previous = from.optional("previous")?;
            let mut encoded_types = from.optional("encoded_types")?;
            let mut arrival = from.optional_implicit("arrival", Tag::context(0))?;
            let mut deferred = from.optional_implicit("deferred", Tag::context(1))?;
            let mut action = from.optional_implicit("action", Tag::context(2))?;
            while from.out_of_order()? {
                match from.peek()? {
                    TAG_PREVIOUS => from.once(&mut previous, "previous", Decode::decode)?,
                    TAG_ENCODED_TYPES => {
                        from.once(&mut encoded_types, "encoded_types", Decode::decode)?
                    }
                    TAG_ARRIVAL => from.once(&mut arrival, "arrival", |from| {
                        DecodeContents::decode_as(TAG_ARRIVAL, from)
                    })?,
                    TAG_DEFERRED => from.once(&mut deferred, "deferred", |from| {
                        DecodeContents::decode_as(TAG_DEFERRED, from)
                    })?,
                    TAG_ACTION => from.once(&mut action, "action", |from| {
                        DecodeContents::decode_as(TAG_ACTION, from)
                    })?,
                    _ => return Err(from.unknown("DomainSuppliedInfo")),
                }
            }
            Ok(DomainSuppliedInfo {
                arrival: arrival.ok_or_else(|| from.missing("arrival"))?,
                deferred,
                action: action.ok_or_else(|| from.missing("action"))?,
                encoded_types,
                previous,
            })
        })
    }
}
