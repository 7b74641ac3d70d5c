"""A contract type for import-linter: a list of what may be imported, so that a module added
tomorrow is refused until allowed."""

from fnmatch import fnmatchcase
from typing import cast

from grimp import ImportGraph
from importlinter import Contract, ContractCheck, fields, output


class AllowList(Contract):
    """``package`` may import, of the project's own modules, itself and those that match
    ``allowed``; ``*`` also matches dots."""

    package = fields.StringField()
    allowed = fields.ListField(subfield=fields.StringField())

    def check(self, graph: ImportGraph, verbose: bool) -> ContractCheck:
        """Direct imports only: what an allowed module imports in turn is that module's affair, and
        other contracts judge it."""
        package = str(self.package)
        allowed = [str(each) for each in cast("list[str]", self.allowed)]
        broken = []
        for module in sorted({package} | graph.find_descendants(package)):
            for imported in sorted(graph.find_modules_directly_imported_by(module)):
                own = imported == package or imported.startswith(f"{package}.")
                if (
                    own
                    or graph.is_module_squashed(imported)
                    or any(fnmatchcase(imported, each) for each in allowed)
                ):
                    continue
                broken.append(f"{module} imports {imported}")
        return ContractCheck(kept=not broken, metadata={"broken": broken})

    def render_broken_contract(self, check: ContractCheck) -> None:
        """Name each import that is not on the list."""
        for line in check.metadata["broken"]:
            output.print_error(f"- {line}")
        output.new_line()
