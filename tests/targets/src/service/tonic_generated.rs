// What tonic's code generator writes for a service of six methods, in short: a trait, a server, and for
// each method a structure that calls it. The package's build script puts it where generated code is.
use super::{BoxFuture, Text};
use std::convert::Infallible;
use std::sync::Arc;
use std::task::{Context, Poll};
use tonic::codegen::{http, Body, Service, StdError};
use tonic::{Request, Response, Status};

macro_rules! methods {
    ($($method:ident)*) => {
        #[tonic::async_trait]
        pub trait Shop: Send + Sync + 'static {
            $(async fn $method(&self, request: Request<Text>) -> Result<Response<Text>, Status>;)*
        }

        impl<T: Shop, B> Service<http::Request<B>> for ShopServer<T>
        where
            B: Body + Send + 'static,
            B::Error: Into<StdError> + Send + 'static,
        {
            type Response = http::Response<tonic::body::BoxBody>;
            type Error = Infallible;
            type Future = BoxFuture<Self::Response, Self::Error>;

            fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
                Poll::Ready(Ok(()))
            }

            fn call(&mut self, request: http::Request<B>) -> Self::Future {
                let inner = self.0.clone();
                match request.uri().path() {
                    $(concat!("/shop.Shop/", stringify!($method)) => {
                        struct Method<T>(Arc<T>);

                        impl<T: Shop> tonic::server::UnaryService<Text> for Method<T> {
                            type Response = Text;
                            type Future = BoxFuture<Response<Text>, Status>;

                            fn call(&mut self, request: Request<Text>) -> Self::Future {
                                let inner = Arc::clone(&self.0);
                                let fut = async move { <T as Shop>::$method(&inner, request).await };
                                Box::pin(fut)
                            }
                        }
                        let fut = async move {
                            let mut grpc = tonic::server::Grpc::new(tonic::codec::ProstCodec::default());
                            Ok(grpc.unary(Method(inner), request).await)
                        };
                        Box::pin(fut)
                    })*
                    _ => unreachable!(),
                }
            }
        }
    };
}

methods!(blocks item order file pool hello);

pub struct ShopServer<T>(pub Arc<T>);

impl<T> Clone for ShopServer<T> {
    fn clone(&self) -> Self {
        ShopServer(self.0.clone())
    }
}

impl<T> tonic::server::NamedService for ShopServer<T> {
    const NAME: &'static str = "shop.Shop";
}
