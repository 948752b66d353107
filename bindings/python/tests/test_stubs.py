"""The stubs and the compiled module name the same things."""

import ast
import inspect
import os
import unittest

import braidb
from braidb import _core

# Methods that each class of Python has, or that stubs express in another way.
GIVEN = {"__repr__", "__new__", "__doc__", "__module__", "__weakref__", "__dict__", "__class_getitem__"}


def of_stubs():
    """The names in the stubs: those of the module, and those of each class."""
    with open(os.path.join(os.path.dirname(braidb.__file__), "_core.pyi")) as file:
        tree = ast.parse(file.read())
    names = {}
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            names[node.name] = {item.name: item for item in node.body if isinstance(item, ast.FunctionDef)}
        elif isinstance(node, ast.FunctionDef):
            names[node.name] = node
    return names


def parameters(node):
    """The names of a function's parameters in the stubs."""
    arguments = node.args
    names = [argument.arg for argument in arguments.posonlyargs + arguments.args]
    names += [arguments.vararg.arg] if arguments.vararg else []
    names += [argument.arg for argument in arguments.kwonlyargs]
    return names + ([arguments.kwarg.arg] if arguments.kwarg else [])


class Stubs(unittest.TestCase):
    def test_names_are_the_same(self):
        stubs = of_stubs()
        self.assertEqual({name for name in dir(_core) if not name.startswith("_")}, set(stubs))
        self.assertLessEqual(set(stubs), set(braidb.__all__))
        for name, methods in stubs.items():
            if isinstance(methods, dict):
                kind = getattr(_core, name)
                of_class = {member for member in vars(kind) if member not in GIVEN}
                self.assertEqual(of_class - {"__buffer__"}, set(methods) - {"__buffer__"}, name)

    def test_parameters_are_the_same(self):
        compared = 0
        for name, node in of_stubs().items():
            pairs = [(getattr(_core, name), node)] if not isinstance(node, dict) else [
                (vars(getattr(_core, name))[method], method_node)
                for method, method_node in node.items()
                if not method.startswith("__") and not method_node.decorator_list
            ]
            for function, function_node in pairs:
                actual = [parameter for parameter in inspect.signature(function).parameters]
                self.assertEqual(actual, parameters(function_node), f"{name}: {function_node.name}")
                compared += 1
        self.assertGreater(compared, 50)

    def test_annotations_may_name_what_an_iterator_returns(self):
        kind = braidb.Walk[tuple[bytes, bytes]]
        self.assertEqual((kind.__origin__, kind.__args__), (braidb.Walk, (tuple[bytes, bytes],)))

    def test_all_public_names_are_exported(self):
        for name in braidb.__all__:
            self.assertTrue(hasattr(braidb, name), name)
        public = {name for name in dir(braidb) if not name.startswith("_")}
        self.assertLessEqual(public - set(braidb.__all__), {"plyvel"})
        for name in braidb.__all__:
            self.assertTrue(getattr(braidb, name).__doc__, name)


if __name__ == "__main__":
    unittest.main()
