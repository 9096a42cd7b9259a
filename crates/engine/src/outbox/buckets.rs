//! Buckets of S3-compatible stores. A document is put to an address that was signed for it alone.

use std::time::Duration;

use jiff::Timestamp;
use rusty_s3::actions::PutObject;
use rusty_s3::{Bucket, Credentials, S3Action as _, UrlStyle};
use serde::{Deserialize, Serialize};

/// How long an address is good for. It is used at once, but clocks differ.
const GOOD_FOR: Duration = Duration::from_secs(15 * 60);

/// The longest name of a bucket, of a region, of a key's ID and of what object names begin with.
const NAME_BYTES_MAX: usize = 256;

/// A bucket, without its secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BucketPlace {
    /// The address of the store.
    pub endpoint: String,
    /// The name of the bucket.
    pub name: String,
    /// Its region.
    pub region: String,
    /// What the names of objects begin with.
    pub prefix: String,
    /// Who asks for access.
    pub access_key_id: String,
    /// Whether the bucket is named in the host, and not in the path.
    pub virtual_host: bool,
}

impl BucketPlace {
    /// Says what cannot be used.
    pub(crate) fn check(&self) -> Result<(), String> {
        let Self { name, region, access_key_id, prefix, .. } = self;
        let fields = [("name", name), ("region", region), ("access_key_id", access_key_id)];
        if let Some((field, _)) = fields.iter().find(|(_, value)| value.is_empty()) {
            return Err(format!("the {field} of the bucket is missing"));
        }
        let all = fields.into_iter().chain([("prefix", prefix)]);
        for (field, value) in all {
            if value.len() > NAME_BYTES_MAX {
                return Err(format!("the {field} of the bucket is longer than {NAME_BYTES_MAX}"));
            }
            if value.chars().any(char::is_control) {
                return Err(format!("the {field} of the bucket has a control character"));
            }
        }
        // They would be read as steps between directories on the way, and sign another object.
        let is_step = |name: &str| matches!(name, "." | "..");
        if prefix.split('/').any(is_step) || is_step(name) || name.contains('/') {
            return Err("the bucket has no such name, or its prefix no such steps".to_owned());
        }
        self.bucket().map(drop)
    }

    fn bucket(&self) -> Result<Bucket, String> {
        let endpoint = self.endpoint.parse().map_err(|error| format!("{error}"))?;
        let style = if self.virtual_host { UrlStyle::VirtualHost } else { UrlStyle::Path };
        Bucket::new(endpoint, style, self.name.clone(), self.region.clone())
            .map_err(|error| format!("the bucket cannot be used: {error}"))
    }

    /// An address as long as one can be, for a place that was checked.
    pub(crate) fn longest_address(&self) -> String {
        let (type_name, id) = ("x".repeat(NAME_BYTES_MAX / 4), "x".repeat(NAME_BYTES_MAX));
        let address = |bucket: OpenBucket| bucket.address(&type_name, &id, Timestamp::UNIX_EPOCH);
        self.open(String::new()).map(address).unwrap_or_default()
    }

    /// The bucket with its secret.
    pub(crate) fn open(&self, secret: String) -> Result<OpenBucket, String> {
        let credentials = Credentials::new(self.access_key_id.clone(), secret);
        Ok(OpenBucket { bucket: self.bucket()?, credentials, prefix: self.prefix.clone() })
    }
}

/// A bucket with its secret.
pub(crate) struct OpenBucket {
    bucket: Bucket,
    credentials: Credentials,
    prefix: String,
}

impl OpenBucket {
    /// The address that a document is put to.
    pub(crate) fn address(&self, type_name: &str, id: &str, now: Timestamp) -> String {
        // No two IDs may be one object, and none may leave the place of its type.
        let id = id.replace('%', "%25").replace('/', "%2F");
        let object = format!("{}{type_name}/{id}.json", self.prefix);
        let put = PutObject::new(&self.bucket, Some(&self.credentials), &object);
        put.sign_with_time(GOOD_FOR, &now).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place() -> BucketPlace {
        BucketPlace {
            endpoint: "https://s3.example.com".to_owned(),
            name: "papers".to_owned(),
            region: "eu-north-1".to_owned(),
            prefix: "in/".to_owned(),
            access_key_id: "AKID".to_owned(),
            virtual_host: false,
        }
    }

    fn address(place: &BucketPlace, id: &str) -> String {
        let bucket = place.open("secret".to_owned()).unwrap();
        bucket.address("invoice", id, Timestamp::UNIX_EPOCH)
    }

    #[test]
    fn every_id_is_an_object_of_its_own() {
        let object = |id| address(&place(), id).split('?').next().unwrap().to_owned();
        let base = "https://s3.example.com/papers/in/invoice";
        assert_eq!(object("INV-1"), format!("{base}/INV-1.json"));
        assert_eq!(object("../x"), format!("{base}/..%252Fx.json"));
        assert_eq!(object("..%2Fx"), format!("{base}/..%25252Fx.json"));
        let elsewhere = BucketPlace { virtual_host: true, ..place() };
        assert!(address(&elsewhere, "1").starts_with("https://papers.s3.example.com/in/invoice/"));
    }

    #[test]
    fn the_secret_signs_and_is_not_in_the_address() {
        let address = address(&place(), "INV-1");
        assert!(address.contains("X-Amz-Signature=") && address.contains("AKID"), "{address}");
        assert!(!address.contains("secret"));
    }

    #[test]
    fn what_cannot_be_used_is_said() {
        assert_eq!(place().check(), Ok(()));
        let wrong = [
            BucketPlace { endpoint: "s3".to_owned(), ..place() },
            BucketPlace { name: String::new(), ..place() },
            BucketPlace { name: "a/b".to_owned(), ..place() },
            BucketPlace { name: "..".to_owned(), ..place() },
            BucketPlace { region: "\u{7}".to_owned(), ..place() },
            BucketPlace { prefix: "a/../b/".to_owned(), ..place() },
            BucketPlace { prefix: "x".repeat(257), ..place() },
        ];
        for place in wrong {
            assert!(place.check().is_err(), "{place:?}");
        }
    }
}
