"""The tables: a problem, a device and a configuration are stored once; a trial points at all three."""

from sqlalchemy import BigInteger, Double, ForeignKey, MetaData, Text, UniqueConstraint
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

REVISIONS = ("r0001",)  # every schema that this code knows, oldest first; the last is the one it works with
VERSION_TABLE = "im2wingen_schema"


class Base(DeclarativeBase):
    metadata = MetaData(
        naming_convention={
            "ix": "ix_%(table_name)s_%(column_0_N_name)s",
            "uq": "uq_%(table_name)s_%(column_0_N_name)s",
            "fk": "fk_%(table_name)s_%(column_0_N_name)s",
            "pk": "pk_%(table_name)s",
        }
    )


class Problem(Base):
    """`kind` is the key's precision and layouts: nearest shapes are looked for within one kind."""

    __tablename__ = "problem"

    id: Mapped[int] = mapped_column(primary_key=True)
    key: Mapped[str] = mapped_column(Text, unique=True)
    kind: Mapped[str] = mapped_column(Text, index=True)


class Device(Base):
    """A device as a measurement sees it; another driver makes it another row."""

    __tablename__ = "device"
    __table_args__ = (UniqueConstraint("name", "arch", "sm_count", "driver_version"),)

    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(Text)
    arch: Mapped[str] = mapped_column(Text)
    sm_count: Mapped[int]
    driver_version: Mapped[str] = mapped_column(Text)


class Configuration(Base):
    """`text` is the canonical JSON; it belongs to the unique key so that a wrong digest can't swap one for another."""

    __tablename__ = "configuration"
    __table_args__ = (UniqueConstraint("family", "digest", "text"),)

    id: Mapped[int] = mapped_column(primary_key=True)
    family: Mapped[str] = mapped_column(Text)
    digest: Mapped[str] = mapped_column(Text)
    text: Mapped[str] = mapped_column(Text)


class Trial(Base):
    """One trial; the columns mean what the fields of TrialRecord mean."""

    __tablename__ = "trial"

    id: Mapped[int] = mapped_column(primary_key=True)
    identity: Mapped[str] = mapped_column(Text, unique=True)
    problem_id: Mapped[int] = mapped_column(ForeignKey("problem.id"), index=True)
    device_id: Mapped[int] = mapped_column(ForeignKey("device.id"), index=True)
    configuration_id: Mapped[int] = mapped_column(ForeignKey("configuration.id"), index=True)
    study: Mapped[str] = mapped_column(Text, index=True)
    trial: Mapped[int]
    play_off: Mapped[bool]
    predicted: Mapped[bool]
    outcome: Mapped[str] = mapped_column(Text)
    reason: Mapped[str] = mapped_column(Text)
    template_digest: Mapped[str] = mapped_column(Text)
    source_digest: Mapped[str] = mapped_column(Text)
    nvrtc_version: Mapped[str] = mapped_column(Text)
    protocol_version: Mapped[int]
    median_us: Mapped[float | None] = mapped_column(Double)
    min_us: Mapped[float | None] = mapped_column(Double)
    spread: Mapped[float | None] = mapped_column(Double)
    samples: Mapped[int]
    clock_mhz: Mapped[int]
    max_error: Mapped[float | None] = mapped_column(Double)
    norm_error: Mapped[float | None] = mapped_column(Double)
    workspace_bytes: Mapped[int | None] = mapped_column(BigInteger)
    num_regs: Mapped[int | None]
    smem_bytes: Mapped[int | None]
    cubin_sha256: Mapped[str] = mapped_column(Text)  # space separated
    created_at: Mapped[str] = mapped_column(Text)
