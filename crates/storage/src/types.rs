//! ID types and tenants.

use async_trait::async_trait;
use idgen::spec::IdType;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::Result;

/// An ID type in all other tables. Never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TypeId(pub i64);

/// Whether a type issues IDs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TypeState {
    /// It does.
    Active,
    /// It was deleted after it had issued some. Its counter is kept for ever.
    Retired,
}

/// An ID type as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredType {
    /// Its number.
    pub id: TypeId,
    /// The specification.
    pub id_type: IdType,
    /// The key of a random type, encrypted; empty for other kinds.
    pub sealed_key: Vec<u8>,
    /// Whether it issues.
    pub state: TypeState,
    /// Grows with every change, retirement included.
    pub revision: i64,
    /// Whether a serial was ever drawn or a snowflake made, so that IDs may be out there.
    pub used: bool,
    /// When it was made.
    pub created_at: Timestamp,
}

/// What became of a change to a type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// It is in force, under this revision. A retired type is active again.
    Done(i64),
    /// Refused: the type is in use, and the change is only allowed to unused types.
    TypeIsUsed,
}

/// What became of a type that was deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Removal {
    /// It was never used and is gone.
    Deleted,
    /// It was used and is retired.
    Retired,
}

/// An enterprise or project.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tenant {
    /// Its name.
    pub name: String,
    /// How much it may do.
    pub limits: TenantLimits,
    /// When it was made.
    pub created_at: Timestamp,
}

/// How much a tenant may do.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TenantLimits {
    /// Requests per second that its keys may make together; none is no limit.
    pub requests_per_second: Option<u32>,
    /// Batches that may be under way at once; none is what holds for everybody.
    pub active_batches_max: Option<u32>,
    /// Codes that it may order in all, below 2^63; none is what holds for everybody.
    pub codes_max: Option<u64>,
}

/// Remembers ID types and tenants.
#[async_trait]
pub trait TypeStore {
    /// Every type, retired ones included.
    async fn list_types(&self) -> Result<Vec<StoredType>>;

    /// Adds a type, and its tenant if that is new. [`StoreError::Exists`](crate::StoreError) if the
    /// tenant has one of that name, retired or not.
    async fn create_type(
        &self,
        id_type: &IdType,
        sealed_key: &[u8],
        now: Timestamp,
    ) -> Result<StoredType>;

    /// Replaces the specification and the sealed key of a type, and makes it active.
    /// [`StoreError::Stale`](crate::StoreError) if it has another revision than the caller knows.
    /// `only_if_unused` is for changes that would make IDs unreadable or repeat them. The looks and
    /// the change are one step.
    async fn change_type(
        &self,
        id: TypeId,
        revision: i64,
        id_type: &IdType,
        sealed_key: &[u8],
        only_if_unused: bool,
    ) -> Result<Change>;

    /// Deletes a type that was never used, retires any other.
    async fn remove_type(&self, id: TypeId) -> Result<Removal>;

    /// Every tenant, by name.
    async fn list_tenants(&self) -> Result<Vec<Tenant>>;

    /// Makes a tenant or changes its settings; the time of its making stays.
    async fn put_tenant(&self, tenant: &Tenant) -> Result<()>;

    /// Deletes a tenant without types. [`StoreError::InUse`](crate::StoreError) if it has any,
    /// retired or not.
    async fn remove_tenant(&self, name: &str) -> Result<()>;
}
