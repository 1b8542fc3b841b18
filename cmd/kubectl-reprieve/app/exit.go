package app

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"net/url"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/reprieve-dev/reprieve/internal/escape"
	"github.com/reprieve-dev/reprieve/internal/inventory"
	"github.com/reprieve-dev/reprieve/internal/manifest"
	"github.com/reprieve-dev/reprieve/internal/replay"
)

// The exit codes. docs/kubectl.md documents them.
const (
	// exitAnswered: the command answered the question.
	exitAnswered = 0
	// exitFailed: the command failed for a reason that has no exit code of its own.
	exitFailed = 1
	// exitUsage: the flags, the manifest, the snapshot or the configuration is invalid.
	exitUsage = 2
	// exitNotFound: the object does not exist, or has no pod that the command can answer about.
	exitNotFound = 3
	// exitForbidden: the caller lacks a permission.
	exitForbidden = 4
	// exitUnreachable: the API server does not answer, or does not serve Reprieve's API.
	exitUnreachable = 5
	// exitNoRoom: the command answered the question, and some of the planned work finds no room.
	exitNoRoom = 6
	// exitInterrupted: a command that waits for an event was interrupted. Shells use this code for
	// SIGINT.
	exitInterrupted = 130
)

// codedError is an error that determines the exit code.
type codedError struct {
	code int
	err  error
}

// Error returns the message of the wrapped error.
func (e *codedError) Error() string { return e.err.Error() }

// Unwrap returns the wrapped error.
func (e *codedError) Unwrap() error { return e.err }

func usage(err error) error { return &codedError{exitUsage, err} }

func notFound(err error) error { return &codedError{exitNotFound, err} }

// errNoRoom ends the command with exitNoRoom. Run prints no message for this error.
var errNoRoom = errors.New("no room for all")

// codeOf returns the exit code for an error.
func codeOf(err error) int {
	var coded *codedError
	var forbidden *inventory.ForbiddenError
	var notServed *inventory.NotServedError
	var file *inventory.FileError
	var mistake *manifest.Error
	var log *replay.FileError
	var network net.Error
	var address *url.Error
	switch {
	case err == nil:
		return exitAnswered
	case errors.Is(err, errNoRoom):
		return exitNoRoom
	case errors.Is(err, errInterrupted):
		return exitInterrupted
	case errors.As(err, &coded):
		return coded.code
	case errors.As(err, &file), errors.As(err, &mistake), errors.As(err, &log), errors.Is(err, fs.ErrNotExist):
		return exitUsage
	case errors.As(err, &forbidden), apierrors.IsForbidden(err), apierrors.IsUnauthorized(err):
		return exitForbidden
	case errors.Is(err, context.Canceled):
		return exitFailed
	case errors.As(err, &notServed), errors.As(err, &network), errors.As(err, &address), clientcmd.IsEmptyConfig(err):
		return exitUnreachable
	default:
		return exitFailed
	}
}

// oneLine returns the message of an error as one line, without control characters.
func oneLine(err error) string { return escape.Line(strings.Join(strings.Fields(err.Error()), " ")) }
