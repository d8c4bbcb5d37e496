
/// The program `KINDS_PROG`.
pub mod kinds_prog {
    /// Its number.
    pub const PROGRAM: u32 = 536888915;

    /// Version 1 of it, `KINDS_FIRST`.
    pub mod kinds_first {
        #[allow(unused_imports)]
        use super::super::*;
        #[allow(unused_imports)]
        use fusewire_codec::{self as codec, xdr};
        use fusewire_rpc as rpc;

        /// Its number.
        pub const VERSION: u32 = 1;
        /// The procedure `KINDS_NULL`.
        pub const KINDS_NULL: u32 = 0;
        /// The procedure `KINDS_SUM`.
        pub const KINDS_SUM: u32 = 1;

        /// Calls of version 1 of `KINDS_PROG`.
        #[derive(Debug)]
        pub struct Client<T>(pub rpc::Client<T>);

        #[allow(clippy::redundant_closure)]
        impl<T: rpc::Transport> Client<T> {
            /// Calls over `transport`, with the default settings.
            pub fn new(transport: T) -> Self {
                Self::with(transport, rpc::Config::default())
            }

            /// Calls over `transport`.
            pub fn with(transport: T, config: rpc::Config) -> Self {
                Self(rpc::Client::new(transport, super::PROGRAM, VERSION, config))
            }

            /// What a call that was begun returns.
            ///
            /// # Errors
            /// Those of the call.
            pub fn wait<R>(&mut self, call: rpc::Pending<R>) -> Result<R, rpc::Error> {
                self.0.wait(call)
            }

            /// `KINDS_NULL`
            ///
            /// # Errors
            /// The call was not answered, refused, or failed there.
            pub fn kinds_null(&mut self) -> Result<(), rpc::Error> {
                let call = self.begin_kinds_null()?;
                self.0.wait(call)
            }

            /// Begins `KINDS_NULL`, to be waited for later: many calls can be under way.
            ///
            /// # Errors
            /// The call cannot be sent, or there are too many.
            pub fn begin_kinds_null(&mut self) -> Result<rpc::Pending<()>, rpc::Error> {
                self.0.begin(KINDS_NULL, |_| Ok(()), |_| Ok(()))
            }

            /// `KINDS_SUM`
            ///
            /// # Errors
            /// The call was not answered, refused, or failed there.
            pub fn kinds_sum(&mut self, argument: &Pair) -> Result<i32, rpc::Error> {
                let call = self.begin_kinds_sum(argument)?;
                self.0.wait(call)
            }

            /// Begins `KINDS_SUM`, to be waited for later: many calls can be under way.
            ///
            /// # Errors
            /// The call cannot be sent, or there are too many.
            pub fn begin_kinds_sum(&mut self, argument: &Pair) -> Result<rpc::Pending<i32>, rpc::Error> {
                self.0.begin(KINDS_SUM, |to| (xdr::Encode::encode(argument, to)).map_err(|e| e.in_field("argument")), |from| xdr::Decode::decode(from))
            }
        }

        /// What a server of version 1 of `KINDS_PROG` does.
        pub trait Server {
            /// `KINDS_NULL`
            ///
            /// # Errors
            /// What the caller is told instead of a result.
            #[allow(unused_variables)]
            fn kinds_null(&self, call: &rpc::Call<'_>) -> Result<(), rpc::Fault> {
                Ok(())
            }
            /// `KINDS_SUM`
            ///
            /// # Errors
            /// What the caller is told instead of a result.
            fn kinds_sum(&self, call: &rpc::Call<'_>, argument: Pair) -> Result<i32, rpc::Fault>;
        }

        /// A [`Server`] for [`rpc::Services`].
        #[derive(Clone, Debug)]
        pub struct Service<S>(pub S);

        impl<S: Server> rpc::Service for Service<S> {
            fn program(&self) -> u32 {
                super::PROGRAM
            }

            fn version(&self) -> u32 {
                VERSION
            }

            #[allow(clippy::redundant_closure)]
            fn read(
                &self,
                procedure: u32,
                from: &mut rpc::message::MessageDecoder<'_>,
            ) -> Result<rpc::Prepared<'_>, rpc::Fault> {
                match procedure {
                    KINDS_NULL => {
                        rpc::no_more(from)?;
                        Ok(Box::new(move |call, _| self.0.kinds_null(call)))
                    }
                    KINDS_SUM => {
                        let argument: Pair = rpc::argument(from.field("argument", |from| xdr::Decode::decode(from)))?;
                        rpc::no_more(from)?;
                        Ok(Box::new(move |call, reply| {
                            let result = self.0.kinds_sum(call, argument)?;
                            reply.result(|to| xdr::Encode::encode(&result, to))
                        }))
                    }
                    _ => Err(rpc::Fault::NoProcedure),
                }
            }
        }
    }

    /// Version 3 of it, `KINDS_SECOND`.
    pub mod kinds_second {
        #[allow(unused_imports)]
        use super::super::*;
        #[allow(unused_imports)]
        use fusewire_codec::{self as codec, xdr};
        use fusewire_rpc as rpc;

        /// Its number.
        pub const VERSION: u32 = 3;
        /// The procedure `KINDS_ECHO`.
        pub const KINDS_ECHO: u32 = 1;
        /// The procedure `KINDS_LARGE`.
        pub const KINDS_LARGE: u32 = 2;
        /// The procedure `KINDS_COUNT`.
        pub const KINDS_COUNT: u32 = 3;
        /// The procedure `KINDS_REVERSE`.
        pub const KINDS_REVERSE: u32 = 4;
        /// The procedure `KINDS_GREET`.
        pub const KINDS_GREET: u32 = 5;
        /// The procedure `KINDS_TAKE`.
        pub const KINDS_TAKE: u32 = 6;
        /// The procedure `KINDS_FAIL`.
        pub const KINDS_FAIL: u32 = 7;

        /// Calls of version 3 of `KINDS_PROG`.
        #[derive(Debug)]
        pub struct Client<T>(pub rpc::Client<T>);

        #[allow(clippy::redundant_closure)]
        impl<T: rpc::Transport> Client<T> {
            /// Calls over `transport`, with the default settings.
            pub fn new(transport: T) -> Self {
                Self::with(transport, rpc::Config::default())
            }

            /// Calls over `transport`.
            pub fn with(transport: T, config: rpc::Config) -> Self {
                Self(rpc::Client::new(transport, super::PROGRAM, VERSION, config))
            }

            /// What a call that was begun returns.
            ///
            /// # Errors
            /// Those of the call.
            pub fn wait<R>(&mut self, call: rpc::Pending<R>) -> Result<R, rpc::Error> {
                self.0.wait(call)
            }

            /// `NULL`
            ///
            /// # Errors
            /// The call was not answered, refused, or failed there.
            pub fn null(&mut self) -> Result<(), rpc::Error> {
                let call = self.begin_null()?;
                self.0.wait(call)
            }

            /// Begins `NULL`, to be waited for later: many calls can be under way.
            ///
            /// # Errors
            /// The call cannot be sent, or there are too many.
            pub fn begin_null(&mut self) -> Result<rpc::Pending<()>, rpc::Error> {
                self.0.begin(0, |_| Ok(()), |_| Ok(()))
            }

            /// `KINDS_ECHO`
            ///
            /// # Errors
            /// The call was not answered, refused, or failed there.
            pub fn kinds_echo(&mut self, argument: &Everything) -> Result<Everything, rpc::Error> {
                let call = self.begin_kinds_echo(argument)?;
                self.0.wait(call)
            }

            /// Begins `KINDS_ECHO`, to be waited for later: many calls can be under way.
            ///
            /// # Errors
            /// The call cannot be sent, or there are too many.
            pub fn begin_kinds_echo(&mut self, argument: &Everything) -> Result<rpc::Pending<Everything>, rpc::Error> {
                self.0.begin(KINDS_ECHO, |to| (xdr::Encode::encode(argument, to)).map_err(|e| e.in_field("argument")), |from| xdr::Decode::decode(from))
            }

            /// `KINDS_LARGE`
            ///
            /// # Errors
            /// The call was not answered, refused, or failed there.
            pub fn kinds_large(&mut self, argument: u32) -> Result<Blob, rpc::Error> {
                let call = self.begin_kinds_large(argument)?;
                self.0.wait(call)
            }

            /// Begins `KINDS_LARGE`, to be waited for later: many calls can be under way.
            ///
            /// # Errors
            /// The call cannot be sent, or there are too many.
            pub fn begin_kinds_large(&mut self, argument: u32) -> Result<rpc::Pending<Blob>, rpc::Error> {
                self.0.begin(KINDS_LARGE, |to| (xdr::Encode::encode(&argument, to)).map_err(|e| e.in_field("argument")), |from| from.opaque(u32::MAX))
            }

            /// `KINDS_COUNT`
            ///
            /// # Errors
            /// The call was not answered, refused, or failed there.
            pub fn kinds_count(&mut self) -> Result<u32, rpc::Error> {
                let call = self.begin_kinds_count()?;
                self.0.wait(call)
            }

            /// Begins `KINDS_COUNT`, to be waited for later: many calls can be under way.
            ///
            /// # Errors
            /// The call cannot be sent, or there are too many.
            pub fn begin_kinds_count(&mut self) -> Result<rpc::Pending<u32>, rpc::Error> {
                self.0.begin(KINDS_COUNT, |_| Ok(()), |from| xdr::Decode::decode(from))
            }

            /// `KINDS_REVERSE`
            ///
            /// # Errors
            /// The call was not answered, refused, or failed there.
            pub fn kinds_reverse(&mut self, argument: &[Entry]) -> Result<Entries, rpc::Error> {
                let call = self.begin_kinds_reverse(argument)?;
                self.0.wait(call)
            }

            /// Begins `KINDS_REVERSE`, to be waited for later: many calls can be under way.
            ///
            /// # Errors
            /// The call cannot be sent, or there are too many.
            pub fn begin_kinds_reverse(&mut self, argument: &[Entry]) -> Result<rpc::Pending<Entries>, rpc::Error> {
                self.0.begin(KINDS_REVERSE, |to| (to.list_of(argument, |to, value| xdr::Encode::encode(value, to))).map_err(|e| e.in_field("argument")), |from| from.list_of(xdr::Decode::decode))
            }

            /// `KINDS_GREET`
            ///
            /// # Errors
            /// The call was not answered, refused, or failed there.
            pub fn kinds_greet(&mut self, argument: &[u8]) -> Result<Name, rpc::Error> {
                let call = self.begin_kinds_greet(argument)?;
                self.0.wait(call)
            }

            /// Begins `KINDS_GREET`, to be waited for later: many calls can be under way.
            ///
            /// # Errors
            /// The call cannot be sent, or there are too many.
            pub fn begin_kinds_greet(&mut self, argument: &[u8]) -> Result<rpc::Pending<Name>, rpc::Error> {
                self.0.begin(KINDS_GREET, |to| (to.opaque(argument, 16)).map_err(|e| e.in_field("argument")), |from| from.string(16))
            }

            /// `KINDS_TAKE`
            ///
            /// # Errors
            /// The call was not answered, refused, or failed there.
            pub fn kinds_take(&mut self, argument: &[u8]) -> Result<(), rpc::Error> {
                let call = self.begin_kinds_take(argument)?;
                self.0.wait(call)
            }

            /// Begins `KINDS_TAKE`, to be waited for later: many calls can be under way.
            ///
            /// # Errors
            /// The call cannot be sent, or there are too many.
            pub fn begin_kinds_take(&mut self, argument: &[u8]) -> Result<rpc::Pending<()>, rpc::Error> {
                self.0.begin(KINDS_TAKE, |to| (to.opaque(argument, u32::MAX)).map_err(|e| e.in_field("argument")), |_| Ok(()))
            }

            /// `KINDS_FAIL`
            ///
            /// # Errors
            /// The call was not answered, refused, or failed there.
            pub fn kinds_fail(&mut self) -> Result<i32, rpc::Error> {
                let call = self.begin_kinds_fail()?;
                self.0.wait(call)
            }

            /// Begins `KINDS_FAIL`, to be waited for later: many calls can be under way.
            ///
            /// # Errors
            /// The call cannot be sent, or there are too many.
            pub fn begin_kinds_fail(&mut self) -> Result<rpc::Pending<i32>, rpc::Error> {
                self.0.begin(KINDS_FAIL, |_| Ok(()), |from| xdr::Decode::decode(from))
            }
        }

        /// What a server of version 3 of `KINDS_PROG` does.
        pub trait Server {
            /// `KINDS_ECHO`
            ///
            /// # Errors
            /// What the caller is told instead of a result.
            fn kinds_echo(&self, call: &rpc::Call<'_>, argument: Everything) -> Result<Everything, rpc::Fault>;
            /// `KINDS_LARGE`
            ///
            /// # Errors
            /// What the caller is told instead of a result.
            fn kinds_large(&self, call: &rpc::Call<'_>, argument: u32) -> Result<Blob, rpc::Fault>;
            /// `KINDS_COUNT`
            ///
            /// # Errors
            /// What the caller is told instead of a result.
            fn kinds_count(&self, call: &rpc::Call<'_>) -> Result<u32, rpc::Fault>;
            /// `KINDS_REVERSE`
            ///
            /// # Errors
            /// What the caller is told instead of a result.
            fn kinds_reverse(&self, call: &rpc::Call<'_>, argument: Entries) -> Result<Entries, rpc::Fault>;
            /// `KINDS_GREET`
            ///
            /// # Errors
            /// What the caller is told instead of a result.
            fn kinds_greet(&self, call: &rpc::Call<'_>, argument: Name) -> Result<Name, rpc::Fault>;
            /// `KINDS_TAKE`
            ///
            /// # Errors
            /// What the caller is told instead of a result.
            fn kinds_take(&self, call: &rpc::Call<'_>, argument: Blob) -> Result<(), rpc::Fault>;
            /// `KINDS_FAIL`
            ///
            /// # Errors
            /// What the caller is told instead of a result.
            fn kinds_fail(&self, call: &rpc::Call<'_>) -> Result<i32, rpc::Fault>;
        }

        /// A [`Server`] for [`rpc::Services`].
        #[derive(Clone, Debug)]
        pub struct Service<S>(pub S);

        impl<S: Server> rpc::Service for Service<S> {
            fn program(&self) -> u32 {
                super::PROGRAM
            }

            fn version(&self) -> u32 {
                VERSION
            }

            #[allow(clippy::redundant_closure)]
            fn read(
                &self,
                procedure: u32,
                from: &mut rpc::message::MessageDecoder<'_>,
            ) -> Result<rpc::Prepared<'_>, rpc::Fault> {
                match procedure {
                    KINDS_ECHO => {
                        let argument: Everything = rpc::argument(from.field("argument", |from| xdr::Decode::decode(from)))?;
                        rpc::no_more(from)?;
                        Ok(Box::new(move |call, reply| {
                            let result = self.0.kinds_echo(call, argument)?;
                            reply.result(|to| xdr::Encode::encode(&result, to))
                        }))
                    }
                    KINDS_LARGE => {
                        let argument: u32 = rpc::argument(from.field("argument", |from| xdr::Decode::decode(from)))?;
                        rpc::no_more(from)?;
                        Ok(Box::new(move |call, reply| {
                            let result = self.0.kinds_large(call, argument)?;
                            reply.result(|to| to.opaque(&result, u32::MAX))
                        }))
                    }
                    KINDS_COUNT => {
                        rpc::no_more(from)?;
                        Ok(Box::new(move |call, reply| {
                            let result = self.0.kinds_count(call)?;
                            reply.result(|to| xdr::Encode::encode(&result, to))
                        }))
                    }
                    KINDS_REVERSE => {
                        let argument: Entries = rpc::argument(from.field("argument", |from| from.list_of(xdr::Decode::decode)))?;
                        rpc::no_more(from)?;
                        Ok(Box::new(move |call, reply| {
                            let result = self.0.kinds_reverse(call, argument)?;
                            reply.result(|to| to.list_of(&result, |to, value| xdr::Encode::encode(value, to)))
                        }))
                    }
                    KINDS_GREET => {
                        let argument: Name = rpc::argument(from.field("argument", |from| from.string(16)))?;
                        rpc::no_more(from)?;
                        Ok(Box::new(move |call, reply| {
                            let result = self.0.kinds_greet(call, argument)?;
                            reply.result(|to| to.opaque(&result, 16))
                        }))
                    }
                    KINDS_TAKE => {
                        let argument: Blob = rpc::argument(from.field("argument", |from| from.opaque(u32::MAX)))?;
                        rpc::no_more(from)?;
                        Ok(Box::new(move |call, _| self.0.kinds_take(call, argument)))
                    }
                    KINDS_FAIL => {
                        rpc::no_more(from)?;
                        Ok(Box::new(move |call, reply| {
                            let result = self.0.kinds_fail(call)?;
                            reply.result(|to| xdr::Encode::encode(&result, to))
                        }))
                    }
                    _ => Err(rpc::Fault::NoProcedure),
                }
            }
        }
    }
}
