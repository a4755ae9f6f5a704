package millrace

import "fmt"

// Status is how an operation ended, by the numbers of enum millrace_status.
type Status int

// How an operation ended that was not done; millrace.h says more of each.
const (
	NotFound    Status = 1
	NotStored   Status = 2
	Exists      Status = 3
	Argument    Status = -1
	Unreachable Status = -2
	Gone        Status = -3
	TimedOut    Status = -4
	Busy        Status = -5
	Full        Status = -6
	TooLarge    Status = -7
	NotANumber  Status = -8
	Login       Status = -9
	Refused     Status = -10
	Protocol    Status = -11
	Internal    Status = -12
)

// Outcomes of operations that the server answered.
var (
	ErrNotFound  error = &Error{NotFound, "there is no such item"}
	ErrNotStored error = &Error{NotStored, "not stored: its condition does not hold"}
	ErrExists    error = &Error{Exists, "not stored: another version is there"}
)

// Error is why an operation was not done, or is not known to be: of Gone and TimedOut a write was done, or will be, or not.
type Error struct {
	Status Status
	// Text says what to do.
	Text string
}

func (e *Error) Error() string {
	return fmt.Sprintf("millrace: %s", e.Text)
}

// Is makes errors of one status alike, as errors.Is wants to know.
func (e *Error) Is(other error) bool {
	same, ok := other.(*Error)
	return ok && same.Status == e.Status
}
