//! A service on tonic, as its code generator would write it: one method for each route. Its clients are
//! tonic's, each on a runtime of its own.
mod load;
mod work;

use std::convert::Infallible;
use std::net::SocketAddr;
use std::task::{Context, Poll};
use tonic::codegen::{http, Body, BoxFuture, Service, StdError};
use tonic::{Code, Request, Response, Status};
use work::Shop;

#[derive(Clone, PartialEq, prost::Message)]
struct Text {
    #[prost(string, tag = "1")]
    text: String,
}

type Answer = Result<Response<Text>, Status>;

fn answer(text: String) -> Answer {
    Ok(Response::new(Text { text }))
}

async fn blocks() -> Answer {
    let _request = load::Request::to("blocks");
    answer(work::block())
}

async fn item(shop: Shop) -> Answer {
    let _request = load::Request::to("item");
    answer(work::take_item(&shop.stock).await)
}

async fn order(shop: Shop) -> Answer {
    let _request = load::Request::to("order");
    shop.orders.send(1).await.map_err(|_| Status::new(Code::Internal, "no mailer"))?;
    answer("ordered".into())
}

async fn file() -> Answer {
    let _request = load::Request::to("file");
    answer(work::read_file().await)
}

async fn pool(shop: Shop) -> Answer {
    let _request = load::Request::to("pool");
    answer(work::query(&shop.pool).await)
}

async fn hello() -> Answer {
    let _request = load::Request::to("hello");
    answer("hello".into())
}

/// One method of the service.
struct Method(Shop, String);

impl tonic::server::UnaryService<Text> for Method {
    type Response = Text;
    type Future = BoxFuture<Response<Text>, Status>;

    fn call(&mut self, _: Request<Text>) -> Self::Future {
        let shop = self.0.clone();
        match self.1.as_str() {
            "/shop.Shop/blocks" => Box::pin(blocks()),
            "/shop.Shop/item" => Box::pin(item(shop)),
            "/shop.Shop/order" => Box::pin(order(shop)),
            "/shop.Shop/file" => Box::pin(file()),
            "/shop.Shop/pool" => Box::pin(pool(shop)),
            _ => Box::pin(hello()),
        }
    }
}

#[derive(Clone)]
struct ShopServer(Shop);

impl tonic::server::NamedService for ShopServer {
    const NAME: &'static str = "shop.Shop";
}

impl<B> Service<http::Request<B>> for ShopServer
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
        let method = Method(self.0.clone(), request.uri().path().into());
        Box::pin(async move {
            let mut grpc = tonic::server::Grpc::new(tonic::codec::ProstCodec::default());
            Ok(grpc.unary(method, request).await)
        })
    }
}

async fn client(to: SocketAddr) {
    let channel = tonic::transport::Endpoint::from_shared(format!("http://{to}"))
        .expect("an address")
        .connect()
        .await
        .expect("connect");
    let mut grpc = tonic::client::Grpc::new(channel);
    for _ in 0..load::rounds() {
        for route in load::ROUTES {
            grpc.ready().await.expect("ready");
            let path = http::uri::PathAndQuery::from_maybe_shared(format!("/shop.Shop/{route}"));
            let codec: tonic::codec::ProstCodec<Text, Text> = Default::default();
            let request = Request::new(Text { text: String::new() });
            grpc.unary(request, path.expect("a path"), codec).await.expect(route);
        }
    }
}

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime");
    let (shop, mailer) = Shop::open();
    let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).expect("bind");
    let address = listener.local_addr().expect("an address");
    runtime.spawn(mailer);
    runtime.spawn(
        tonic::transport::Server::builder()
            .add_service(ShopServer(shop))
            .serve_with_incoming(tokio_stream::wrappers::TcpListenerStream::new(listener)),
    );
    load::ready();
    let clients: Vec<_> = (0..load::CLIENTS)
        .map(|_| {
            std::thread::spawn(move || {
                let own = tokio::runtime::Builder::new_current_thread().enable_all().build();
                own.expect("a runtime").block_on(client(address));
            })
        })
        .collect();
    for client in clients {
        client.join().expect("client");
    }
    load::done("tonic");
}
