"""Classes of the user's: NKIObjects, dataclasses, enumerations and plain ones, as records of the interpreter's own."""

from __future__ import annotations

import ast

from nki_lab.kernel_runtime.interpreter.calls import CallSite, bind, bind_names, call_function, caller
from nki_lab.kernel_runtime.interpreter.interpreter import Frame, Function
from nki_lab.kernel_runtime.interpreter.limits import TooLarge
from nki_lab.kernel_runtime.interpreter.values import (
    MISSING,
    UNKNOWN,
    EnumMember,
    Field,
    Instance,
    Names,
    Special,
    UserClass,
    Value,
)
from nki_lab.kernel_runtime.language.objects import NKIObject

AUTO = object()
"""The value of `enum.auto()` until its class is made."""

_ENUM_BASES = {"enum.Enum": "enum", "enum.IntEnum": "intenum", "enum.StrEnum": "strenum", "enum.Flag": "flag"}
_PLAIN_BASES = frozenset({"abc.ABC", "typing.Protocol", "typing.Generic"})
"""Bases that say something to type checkers, and nothing to a kernel."""
BASES = (*_ENUM_BASES, *_PLAIN_BASES)
ENUMS = frozenset({"enum", "intenum", "strenum", "flag"})


def make_class(frame: Frame, node: ast.ClassDef, bases: list[Value], attributes: Names) -> UserClass:
    """Return the class of a `class` statement, before its decorators."""
    parents: list[UserClass] = []
    kind = "object"
    for base in bases:
        if isinstance(base, UserClass):
            parents.append(base)
            kind = base.kind if base.kind != "object" else kind
        elif base is NKIObject:
            kind = "nki"
        elif isinstance(base, Special) and base.name in _ENUM_BASES:
            mixed = int in bases or str in bases
            kind = _ENUM_BASES[base.name] if not mixed else ("intenum" if int in bases else "strenum")
        elif isinstance(base, Special) and base.name == "typing.NamedTuple":
            kind = "namedtuple"
        elif not (isinstance(base, Special) and base.name in _PLAIN_BASES) and base not in (int, str, object):
            kind = "unknown"
    cls = UserClass(node.name, tuple(parents), kind, attributes, node=node)
    frame.meter.spend(len(cls.mro) >> 2)
    frame.interpreter.note_class(cls, frame)
    for item in node.body:
        if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name):
            cls.annotations[item.target.id] = ast.unparse(item.annotation)[:200]
    for value in attributes.values():
        if isinstance(value, Function) and value.owner is None:
            value.owner = cls
    if kind == "nki":
        _complete_fields(cls)
    elif kind == "namedtuple":
        cls.dataclass = {"frozen": True}
    elif kind in ENUMS:
        _make_members(frame, node, cls)
    return cls


def _complete_fields(cls: UserClass) -> None:
    """Make attributes without annotation fields, and values of other fields None, as `NKIObject.__init_subclass__`."""
    for name, value in cls.attributes.items():
        if not name.startswith("_") and not isinstance(value, Function | UserClass) and not callable(value):
            cls.annotations.setdefault(name, "")
    for name in cls.annotations:
        cls.attributes.setdefault(name, None)


def _make_members(frame: Frame, node: ast.ClassDef, cls: UserClass) -> None:
    by_value: dict[tuple[type, Value], EnumMember] = {}
    highest: int | None = None
    for parent in cls.mro[1:]:
        cls.members |= parent.members
    for name, value in list(cls.attributes.items()):
        if name.startswith("_") or isinstance(value, Function | UserClass):
            continue
        del cls.attributes[name]
        if value is AUTO:
            last = 0 if highest is None else highest
            following = 1 << last.bit_length() if cls.kind == "flag" else last + 1
            value = name.lower() if cls.kind == "strenum" else following  # noqa: PLW2901
        same = by_value.get(_key(frame, value))
        if same is None:
            same = by_value[_key(frame, value)] = EnumMember(cls, name, value)
            if isinstance(value, int):
                highest = value if highest is None else max(highest, value)
            made = cls.find("__init__")
            if isinstance(made, Function):
                call_function(frame, node, made, [same, *(value if type(value) is tuple else (value,))], {})
        cls.members[name] = same


def _key(frame: Frame, value: Value) -> tuple[type, Value]:
    """Return what tells the values of an enumeration apart."""
    if not frame.meter.ends(value):
        return object, id(value)
    try:
        hash(value)
    except TypeError:
        return type(value), repr(value)
    return type(value), value


def decorate_dataclass(cls: Value, options: Names) -> Value:
    """Return the class under `@dataclass(**options)`."""
    if not isinstance(cls, UserClass):
        return UNKNOWN
    cls.dataclass = options
    for name, value in list(cls.attributes.items()):
        if isinstance(value, Field) and cls.kind == "nki" and value.factory is MISSING:
            cls.attributes[name] = None if value.default is MISSING else value.default
    return cls


@caller(UserClass)
def instantiate(site: CallSite, cls: UserClass, args: list[Value], kwargs: Names) -> Value:
    """Return `cls(*args, **kwargs)`."""
    frame, node = site.frame, site.node
    if cls.kind in ENUMS:
        return _member_of(frame, node, cls, args)
    if cls.inherits("unknown"):
        frame.interpreter.doubt([*args, *kwargs.values()])
        return UNKNOWN
    frame.meter.spend(1)
    instance = Instance(cls, {})
    made = cls.find("__init__")
    own = made if isinstance(made, Function) and not _generates(cls, made) else None
    try:
        if own is not None:
            bind(own, [instance, *args], kwargs)  # where they do not fit, nothing is made
        elif cls.kind == "nki":
            _fill_nki(site, cls, instance, args, kwargs)
        elif cls.is_dataclass:
            _fill_dataclass(site, cls, instance, args, kwargs)
        elif args or kwargs:
            raise TypeError(f"{cls.name}() takes no arguments")
    except TypeError as error:
        return frame.fault(error, node)
    if own is not None:
        call_function(frame, node, own, [instance, *args], kwargs)
        return instance
    after = cls.find("__post_init__")
    if isinstance(after, Function) and (cls.kind == "nki" or cls.is_dataclass):
        call_function(frame, node, after, [instance], {})
    return instance


def _generates(cls: UserClass, made: Function) -> bool:
    """Return whether a dataclass decorator put an `__init__` before the inherited `made`."""
    for item in cls.mro:
        if made is item.attributes.get("__init__"):
            return False
        if item.dataclass is not None and cls.kind != "nki":
            return item.dataclass.get("init", True) is not False
    return False


def _member_of(frame: Frame, node: ast.AST, cls: UserClass, args: list[Value]) -> Value:
    if len(args) != 1 or frame.interpreter.holds_unknown(args[0]) or isinstance(args[0], Instance):
        return UNKNOWN
    if isinstance(args[0], EnumMember) and args[0].cls is cls:
        return args[0]
    if not frame.meter.ends(args[0]):
        return frame.fault(TooLarge("a nested container"), node)
    for member in cls.members.values():
        if member.value is UNKNOWN:
            return UNKNOWN
        if frame.meter.ends(member.value) and member.value == args[0]:
            return member
    return frame.fault(ValueError(f"{args[0]!r} is not a valid {cls.name}"), node)


def _fill_nki(site: CallSite, cls: UserClass, instance: Instance, args: list[Value], kwargs: Names) -> None:
    """Set the fields as the constructor that `NKIObject` gives its subclasses."""
    fields: Names = {}
    for item in reversed(cls.mro):
        for name, annotation in item.annotations.items():
            if not name.startswith("__") and "ClassVar" not in annotation:
                found = cls.find(name)
                fields[name] = None if found is MISSING else found
    if len(args) > len(fields):
        raise TypeError(f"{cls.name}() takes {len(fields)} arguments, {len(args)} were given")
    given = dict(zip(fields, args, strict=False)) | kwargs
    for name in given:
        if name not in fields:
            raise TypeError(f"{cls.name}() got an unexpected keyword argument {name!r}")
    for name, value in fields.items():
        made = _default(site, value)
        made = type(made)(made) if isinstance(made, list | dict | set) else made
        instance.fields[name] = None if made is MISSING else made
    instance.fields |= given


def _default(site: CallSite, value: Value) -> Value:
    """Return the default of a field, MISSING for none."""
    if not isinstance(value, Field):
        return value
    return value.default if value.factory is MISSING else site.call(value.factory)


def fields_of(cls: UserClass) -> Names:
    """Return the fields of a dataclass with their defaults, MISSING for none."""
    fields: Names = {}
    for item in reversed(cls.mro):
        for name, annotation in item.annotations.items() if item.dataclass is not None else ():
            if "ClassVar" not in annotation and name != "_":
                fields[name] = item.attributes.get(name, MISSING)
    return fields


def _parameters(fields: Names) -> Names:
    """Return the fields that a constructor takes."""
    return {name: value for name, value in fields.items() if not isinstance(value, Field) or value.init}


def _fill_dataclass(site: CallSite, cls: UserClass, instance: Instance, args: list[Value], kwargs: Names) -> None:
    """Set the fields as the constructor that `dataclasses.dataclass` generates."""
    fields = fields_of(cls)
    taken = _parameters(fields)
    keyword_only = bool(cls.dataclass and cls.dataclass.get("kw_only"))
    named = [name for name, value in taken.items() if keyword_only or (isinstance(value, Field) and value.kw_only)]
    places = ["self", *(name for name in taken if name not in named)]
    optional = {
        name
        for name, value in taken.items()
        if value is not MISSING and not (isinstance(value, Field) and value.default is value.factory)
    }
    given = bind_names(f"{cls.name}.__init__()", places, named, [instance, *args], kwargs, optional)
    for name, value in fields.items():
        made = given[name] if name in given else _default(site, value)
        if made is not MISSING:
            instance.fields[name] = made


def replace_fields(site: CallSite, instance: Instance, changes: Names) -> Value:
    """Return `dataclasses.replace(instance, **changes)`."""
    taken = _parameters(fields_of(instance.cls))
    known = {name: value for name, value in instance.fields.items() if name in taken}
    return instantiate(site, instance.cls, [], known | changes)
