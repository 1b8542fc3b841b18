package app

import (
	"fmt"
	"io"
	"os"
	"sync"

	"k8s.io/utils/clock"

	"github.com/reprieve-dev/reprieve/internal/escape"
)

// progress shows the current activity of a command on a terminal, if the command runs longer than
// the constant patience. It is safe for concurrent use.
type progress struct {
	to   io.Writer
	done chan struct{}
	over sync.WaitGroup

	mu    sync.Mutex
	said  string
	notes []string
}

// newProgress starts to show progress. The caller must call end. If the writer is not a terminal,
// no progress is shown.
func newProgress(to io.Writer, clk clock.Clock) *progress {
	p := &progress{to: to, done: make(chan struct{})}
	if !isTerminal(to) {
		return p
	}
	p.over.Go(func() {
		timer := clk.NewTimer(patience)
		defer timer.Stop()
		shown := false
		for {
			select {
			case <-p.done:
				if shown {
					fmt.Fprint(to, cleared)
				}
				return
			case <-timer.C():
				p.mu.Lock()
				said := p.said
				p.mu.Unlock()
				fmt.Fprintf(to, "%s%s ...", cleared, escape.Line(said))
				shown = true
				timer.Reset(patience / 5)
			}
		}
	})
	return p
}

// say replaces the text about the current activity.
func (p *progress) say(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.said = fmt.Sprintf(format, args...)
}

// note stores a line about the answer. end prints the line, even if the writer is not a terminal.
func (p *progress) note(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.notes = append(p.notes, fmt.Sprintf(format, args...))
}

// end clears the text about the current activity and prints the notes. Call it once.
func (p *progress) end() {
	close(p.done)
	p.over.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, note := range p.notes {
		fmt.Fprintln(p.to, "note:", escape.Line(note))
	}
}

// isTerminal reports whether the writer is a terminal, or an escape.Writer that writes to one.
func isTerminal(to io.Writer) bool {
	if w, ok := to.(*escape.Writer); ok {
		to = w.To
	}
	file, ok := to.(*os.File)
	if !ok {
		return false
	}
	info, err := file.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
