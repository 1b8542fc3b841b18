package main

import (
	"fmt"
	"io"
	"sync"
	"time"
)

// narrator writes the events, line by line, with the time since its start. It is safe for
// concurrent use.
type narrator struct {
	mu    sync.Mutex
	out   io.Writer
	now   func() time.Time
	start time.Time
}

func newNarrator(out io.Writer, now func() time.Time) *narrator {
	return &narrator{out: out, now: now, start: now()}
}

// title opens a new act.
func (n *narrator) title(format string, args ...any) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.write("\n== "+format+"\n", args...)
}

// say tells of one thing that has happened.
func (n *narrator) say(format string, args ...any) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.write("%6.1fs  %s\n", n.now().Sub(n.start).Seconds(), fmt.Sprintf(format, args...))
}

// write ignores errors: a reader that closed the output does not need an error.
func (n *narrator) write(format string, args ...any) {
	_, _ = fmt.Fprintf(n.out, format, args...)
}
