
/// The program `OLD`.
pub mod old {
    /// Its number.
    pub const PROGRAM: u32 = 400100;

    /// Version 1 of it, `OLD_ONE`.
    pub mod old_one {
        #[allow(unused_imports)]
        use super::super::*;
        #[allow(unused_imports)]
        use fusewire_codec::{self as codec, xdr};
        use fusewire_rpc as rpc;

        /// Its number.
        pub const VERSION: u32 = 1;
        /// The procedure `GET`.
        pub const GET: u32 = 1;
        /// The procedure `NULL_OR_NOT`.
        pub const NULL_OR_NOT: u32 = 2;
        /// The procedure `type`.
        pub const TYPE: u32 = 3;

        /// Calls of version 1 of `OLD`.
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

            /// `GET`
            ///
            /// # Errors
            /// The call was not answered, refused, or failed there.
            pub fn get(&mut self, argument_1: &[u8], argument_2: &Nodes, argument_3: i32) -> Result<Vec<u8>, rpc::Error> {
                let call = self.begin_get(argument_1, argument_2, argument_3)?;
                self.0.wait(call)
            }

            /// Begins `GET`, to be waited for later: many calls can be under way.
            ///
            /// # Errors
            /// The call cannot be sent, or there are too many.
            pub fn begin_get(&mut self, argument_1: &[u8], argument_2: &Nodes, argument_3: i32) -> Result<rpc::Pending<Vec<u8>>, rpc::Error> {
                self.0.begin(GET, |to| (to.opaque(argument_1, u32::MAX)).map_err(|e| e.in_field("argument_1")).and_then(|()| (match argument_2 { None => to.bool(false), Some(value) => to.bool(true).and_then(|()| xdr::Encode::encode(value, to)) }).map_err(|e| e.in_field("argument_2"))).and_then(|()| (xdr::Encode::encode(&argument_3, to)).map_err(|e| e.in_field("argument_3"))), |from| from.string(u32::MAX))
            }

            /// `NULL_OR_NOT`
            ///
            /// # Errors
            /// The call was not answered, refused, or failed there.
            pub fn null_or_not(&mut self) -> Result<Node, rpc::Error> {
                let call = self.begin_null_or_not()?;
                self.0.wait(call)
            }

            /// Begins `NULL_OR_NOT`, to be waited for later: many calls can be under way.
            ///
            /// # Errors
            /// The call cannot be sent, or there are too many.
            pub fn begin_null_or_not(&mut self) -> Result<rpc::Pending<Node>, rpc::Error> {
                self.0.begin(NULL_OR_NOT, |_| Ok(()), |from| xdr::Decode::decode(from))
            }

            /// `type`
            ///
            /// # Errors
            /// The call was not answered, refused, or failed there.
            pub fn r#type(&mut self, argument: &Node) -> Result<(), rpc::Error> {
                let call = self.begin_type(argument)?;
                self.0.wait(call)
            }

            /// Begins `type`, to be waited for later: many calls can be under way.
            ///
            /// # Errors
            /// The call cannot be sent, or there are too many.
            pub fn begin_type(&mut self, argument: &Node) -> Result<rpc::Pending<()>, rpc::Error> {
                self.0.begin(TYPE, |to| (xdr::Encode::encode(argument, to)).map_err(|e| e.in_field("argument")), |_| Ok(()))
            }
        }

        /// What a server of version 1 of `OLD` does.
        pub trait Server {
            /// `GET`
            ///
            /// # Errors
            /// What the caller is told instead of a result.
            fn get(&self, call: &rpc::Call<'_>, argument_1: Vec<u8>, argument_2: Nodes, argument_3: i32) -> Result<Vec<u8>, rpc::Fault>;
            /// `NULL_OR_NOT`
            ///
            /// # Errors
            /// What the caller is told instead of a result.
            fn null_or_not(&self, call: &rpc::Call<'_>) -> Result<Node, rpc::Fault>;
            /// `type`
            ///
            /// # Errors
            /// What the caller is told instead of a result.
            fn r#type(&self, call: &rpc::Call<'_>, argument: Node) -> Result<(), rpc::Fault>;
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
                    GET => {
                        let argument_1: Vec<u8> = rpc::argument(from.field("argument_1", |from| from.string(u32::MAX)))?;
                        let argument_2: Nodes = rpc::argument(from.field("argument_2", |from| if from.bool()? { xdr::Decode::decode(from).map(Some) } else { Ok(None) }))?;
                        let argument_3: i32 = rpc::argument(from.field("argument_3", |from| xdr::Decode::decode(from)))?;
                        rpc::no_more(from)?;
                        Ok(Box::new(move |call, reply| {
                            let result = self.0.get(call, argument_1, argument_2, argument_3)?;
                            reply.result(|to| to.opaque(&result, u32::MAX))
                        }))
                    }
                    NULL_OR_NOT => {
                        rpc::no_more(from)?;
                        Ok(Box::new(move |call, reply| {
                            let result = self.0.null_or_not(call)?;
                            reply.result(|to| xdr::Encode::encode(&result, to))
                        }))
                    }
                    TYPE => {
                        let argument: Node = rpc::argument(from.field("argument", |from| xdr::Decode::decode(from)))?;
                        rpc::no_more(from)?;
                        Ok(Box::new(move |call, _| self.0.r#type(call, argument)))
                    }
                    _ => Err(rpc::Fault::NoProcedure),
                }
            }
        }
    }
}

/// The program `BARE`.
pub mod bare {
    /// Its number.
    pub const PROGRAM: u32 = 400101;

    /// Version 1 of it, `BARE_ONE`.
    pub mod bare_one {
        #[allow(unused_imports)]
        use super::super::*;
        #[allow(unused_imports)]
        use fusewire_codec::{self as codec, xdr};
        use fusewire_rpc as rpc;

        /// Its number.
        pub const VERSION: u32 = 1;
        /// The procedure `NOTHING`.
        pub const NOTHING: u32 = 0;

        /// Calls of version 1 of `BARE`.
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

            /// `NOTHING`
            ///
            /// # Errors
            /// The call was not answered, refused, or failed there.
            pub fn nothing(&mut self) -> Result<(), rpc::Error> {
                let call = self.begin_nothing()?;
                self.0.wait(call)
            }

            /// Begins `NOTHING`, to be waited for later: many calls can be under way.
            ///
            /// # Errors
            /// The call cannot be sent, or there are too many.
            pub fn begin_nothing(&mut self) -> Result<rpc::Pending<()>, rpc::Error> {
                self.0.begin(NOTHING, |_| Ok(()), |_| Ok(()))
            }
        }

        /// What a server of version 1 of `BARE` does.
        pub trait Server {
            /// `NOTHING`
            ///
            /// # Errors
            /// What the caller is told instead of a result.
            #[allow(unused_variables)]
            fn nothing(&self, call: &rpc::Call<'_>) -> Result<(), rpc::Fault> {
                Ok(())
            }
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
                    NOTHING => {
                        rpc::no_more(from)?;
                        Ok(Box::new(move |call, _| self.0.nothing(call)))
                    }
                    _ => Err(rpc::Fault::NoProcedure),
                }
            }
        }
    }
}
