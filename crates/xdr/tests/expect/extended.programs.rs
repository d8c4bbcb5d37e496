
/// The program `SHARE`.
pub mod share {
    /// Its number.
    pub const PROGRAM: u32 = 400102;

    /// Version 1 of it, `SHARE_ONE`.
    pub mod share_one {
        #[allow(unused_imports)]
        use super::super::*;
        #[allow(unused_imports)]
        use fusewire_codec::{self as codec, xdr};
        use fusewire_rpc as rpc;

        /// Its number.
        pub const VERSION: u32 = 1;
        /// The procedure `FETCH`.
        pub const FETCH: u32 = 3;
        /// The procedure `STORE`.
        pub const STORE: u32 = 4;

        /// Calls of version 1 of `SHARE`.
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

            /// `FETCH`
            ///
            /// # Errors
            /// The call was not answered, refused, or failed there.
            pub fn fetch(&mut self) -> Result<(), rpc::Error> {
                let call = self.begin_fetch()?;
                self.0.wait(call)
            }

            /// Begins `FETCH`, to be waited for later: many calls can be under way.
            ///
            /// # Errors
            /// The call cannot be sent, or there are too many.
            pub fn begin_fetch(&mut self) -> Result<rpc::Pending<()>, rpc::Error> {
                self.0.begin(FETCH, |_| Ok(()), |_| Ok(()))
            }

            /// `STORE`
            ///
            /// # Errors
            /// The call was not answered, refused, or failed there.
            pub fn store(&mut self) -> Result<(), rpc::Error> {
                let call = self.begin_store()?;
                self.0.wait(call)
            }

            /// Begins `STORE`, to be waited for later: many calls can be under way.
            ///
            /// # Errors
            /// The call cannot be sent, or there are too many.
            pub fn begin_store(&mut self) -> Result<rpc::Pending<()>, rpc::Error> {
                self.0.begin(STORE, |_| Ok(()), |_| Ok(()))
            }
        }

        /// What a server of version 1 of `SHARE` does.
        pub trait Server {
            /// `FETCH`
            ///
            /// # Errors
            /// What the caller is told instead of a result.
            fn fetch(&self, call: &rpc::Call<'_>) -> Result<(), rpc::Fault>;
            /// `STORE`
            ///
            /// # Errors
            /// What the caller is told instead of a result.
            fn store(&self, call: &rpc::Call<'_>) -> Result<(), rpc::Fault>;
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
                    FETCH => {
                        rpc::no_more(from)?;
                        Ok(Box::new(move |call, _| self.0.fetch(call)))
                    }
                    STORE => {
                        rpc::no_more(from)?;
                        Ok(Box::new(move |call, _| self.0.store(call)))
                    }
                    _ => Err(rpc::Fault::NoProcedure),
                }
            }
        }
    }

    /// Version 2 of it, `SHARE_TWO`.
    pub mod share_two {
        #[allow(unused_imports)]
        use super::super::*;
        #[allow(unused_imports)]
        use fusewire_codec::{self as codec, xdr};
        use fusewire_rpc as rpc;

        /// Its number.
        pub const VERSION: u32 = 2;
        /// The procedure `FETCH`.
        pub const FETCH: u32 = 3;

        /// Calls of version 2 of `SHARE`.
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

            /// `FETCH`
            ///
            /// # Errors
            /// The call was not answered, refused, or failed there.
            pub fn fetch(&mut self) -> Result<(), rpc::Error> {
                let call = self.begin_fetch()?;
                self.0.wait(call)
            }

            /// Begins `FETCH`, to be waited for later: many calls can be under way.
            ///
            /// # Errors
            /// The call cannot be sent, or there are too many.
            pub fn begin_fetch(&mut self) -> Result<rpc::Pending<()>, rpc::Error> {
                self.0.begin(FETCH, |_| Ok(()), |_| Ok(()))
            }
        }

        /// What a server of version 2 of `SHARE` does.
        pub trait Server {
            /// `FETCH`
            ///
            /// # Errors
            /// What the caller is told instead of a result.
            fn fetch(&self, call: &rpc::Call<'_>) -> Result<(), rpc::Fault>;
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
                    FETCH => {
                        rpc::no_more(from)?;
                        Ok(Box::new(move |call, _| self.0.fetch(call)))
                    }
                    _ => Err(rpc::Fault::NoProcedure),
                }
            }
        }
    }
}
