package main

import (
	"fmt"
	"io"
	"sync"
	"time"
)

// narrator writes one line for each event, with the time since the start of the demo. It is safe
// for concurrent use.
type narrator struct {
	mu    sync.Mutex
	out   io.Writer
	now   func() time.Time
	start time.Time
}

func newNarrator(out io.Writer, now func() time.Time) *narrator {
	return &narrator{out: out, now: now, start: now()}
}

// title prints the title of an act of the demo.
func (n *narrator) title(format string, args ...any) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.write("\n== "+format+"\n", args...)
}

// say prints one event.
func (n *narrator) say(format string, args ...any) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.write("%6.1fs  %s\n", n.now().Sub(n.start).Seconds(), fmt.Sprintf(format, args...))
}

// write ignores errors, because a demo without a readable output has no other place to report them.
func (n *narrator) write(format string, args ...any) {
	_, _ = fmt.Fprintf(n.out, format, args...)
}
