def doctor(command: list[str], pid: int | None) -> int:
    return 0
