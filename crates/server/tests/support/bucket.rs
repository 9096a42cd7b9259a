//! A bucket that takes objects from whoever has signed for them, as S3 specifies it (signature version
//! 4, in the query). The signature is worked out here, by other code than that which made it.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, Method, StatusCode, Uri, header};
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::{Digest as _, Sha256};
use tokio::runtime::Runtime;

use super::receiver::serve;

pub(crate) const ACCESS_KEY_ID: &str = "AKIDEXAMPLE";
pub(crate) const SECRET: &str = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY";
pub(crate) const REGION: &str = "eu-north-1";

/// Objects by their paths.
type Objects = Arc<Mutex<BTreeMap<String, String>>>;

/// A store with one bucket, `papers`.
pub(crate) struct Bucket {
    objects: Objects,
    address: SocketAddr,
    /// Ends with this.
    _runtime: Runtime,
}

impl Bucket {
    pub(crate) fn new() -> Self {
        let objects = Objects::default();
        let router = Router::new().fallback(put).with_state(Arc::clone(&objects));
        let (address, runtime) = serve(router);
        Self { objects, address, _runtime: runtime }
    }

    pub(crate) fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(crate) fn objects(&self) -> BTreeMap<String, String> {
        self.objects.lock().unwrap().clone()
    }
}

async fn put(
    State(objects): State<Objects>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> StatusCode {
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    if method != Method::PUT || !uri.path().starts_with("/papers/") {
        return StatusCode::NOT_FOUND;
    }
    if !is_signed(&method, &uri, host) {
        return StatusCode::FORBIDDEN;
    }
    let body = String::from_utf8(body.to_vec()).unwrap();
    objects.lock().unwrap().insert(uri.path().to_owned(), body);
    StatusCode::OK
}

fn is_signed(method: &Method, uri: &Uri, host: &str) -> bool {
    let pairs = uri.query().unwrap_or_default().split('&');
    let mut pairs: Vec<_> = pairs.filter_map(|pair| pair.split_once('=')).collect();
    pairs.sort_unstable();
    let value = |name| pairs.iter().find(|(key, _)| *key == name).map_or("", |(_, value)| value);
    let time = value("X-Amz-Date");
    let Some(date) = time.get(..8) else { return false };
    let scope = format!("{date}/{REGION}/s3/aws4_request");
    let credential = format!("{ACCESS_KEY_ID}/{scope}").replace('/', "%2F");
    if value("X-Amz-Credential") != credential || value("X-Amz-SignedHeaders") != "host" {
        return false;
    }
    let signed = pairs.iter().filter(|(key, _)| *key != "X-Amz-Signature");
    let query: Vec<_> = signed.map(|(key, value)| format!("{key}={value}")).collect();
    let (query, path) = (query.join("&"), uri.path());
    let request = format!("{method}\n{path}\n{query}\nhost:{host}\n\nhost\nUNSIGNED-PAYLOAD");
    let digest = hex::encode(Sha256::digest(request));
    let text = format!("AWS4-HMAC-SHA256\n{time}\n{scope}\n{digest}");
    let mut key = format!("AWS4{SECRET}").into_bytes();
    for part in [date, REGION, "s3", "aws4_request"] {
        key = sign(&key, part);
    }
    value("X-Amz-Signature") == hex::encode(sign(&key, &text))
}

fn sign(key: &[u8], text: &str) -> Vec<u8> {
    let mac = Hmac::<Sha256>::new_from_slice(key).unwrap();
    mac.chain_update(text).finalize().into_bytes().to_vec()
}
