package app

import (
	"fmt"
	"io"
	"time"

	"k8s.io/utils/clock"
)

// lineEvery is the time between two lines of progress, if the output is not a terminal.
const lineEvery = 10 * time.Second

// newLongProgress is like newProgress, for a command that may take minutes. If the writer is not a
// terminal, for example in a CI job, the progress is a new line at intervals of lineEvery.
func newLongProgress(to io.Writer, clk clock.Clock) *progress {
	if isTerminal(to) {
		return newProgress(to, clk)
	}
	p := &progress{to: to, done: make(chan struct{})}
	timer := clk.NewTimer(lineEvery)
	p.over.Go(func() {
		defer timer.Stop()
		for {
			select {
			case <-p.done:
				return
			case <-timer.C():
				p.mu.Lock()
				said := p.said
				p.mu.Unlock()
				if said != "" {
					fmt.Fprintln(to, said)
				}
				timer.Reset(lineEvery)
			}
		}
	})
	return p
}
