// Command build runs "go build" and shows its progress. A control plane compiles for minutes, and
// the go command reports no progress. The go command caches compiled packages, so an interrupted
// build continues where it stopped.
//
//	go run ./hack/build LABEL [-C DIR] FLAGS... PACKAGE
//
// All arguments after the label are arguments of "go build".
package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"
)

const (
	// quick is the longest time that a build takes if the cache has all its packages. The command
	// counts the packages only of builds that take longer.
	quick = 3 * time.Second
	// redraw is the interval between updates of the progress line on a terminal. report is the
	// interval between progress lines if the output is not a terminal.
	redraw, report = time.Second, time.Minute
	// killDelay is the time between the interrupt of the go command and its kill.
	killDelay = 10 * time.Second
)

func main() {
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "usage: build LABEL [-C DIR] FLAGS... PACKAGE")
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Stdout, isTerminal(os.Stdout), os.Args[1], os.Args[2:])
	interrupted := ctx.Err() != nil
	stop()
	switch {
	case err == nil:
		return
	case interrupted:
		fmt.Fprintln(os.Stderr, "interrupted; the next build goes on from here")
	default:
		fmt.Fprintln(os.Stderr, err)
	}
	os.Exit(1)
}

// isTerminal reports whether the output is a terminal that can overwrite a line.
func isTerminal(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0 && os.Getenv("TERM") != "" && os.Getenv("TERM") != "dumb"
}

// run runs the build, and returns when the go command has ended.
func run(ctx context.Context, out io.Writer, terminal bool, label string, args []string) error {
	// -C must be the first argument.
	dir, args := directory(args)
	cmd := command(ctx, append(slices.Concat([]string{"build"}, dir, []string{"-v"}), args...)...)
	said, err := cmd.StderrPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	lines := make(chan string)
	go func() {
		defer close(lines)
		scanner := bufio.NewScanner(said)
		for scanner.Scan() {
			lines <- scanner.Text()
		}
	}()
	m := &meter{out: out, terminal: terminal, label: label, target: strings.TrimPrefix(args[len(args)-1], "."), began: time.Now()}
	m.follow(lines, func() (total, left int) { return count(ctx, dir, args) })
	return cmd.Wait()
}

func directory(args []string) (dir, rest []string) {
	if args[0] == "-C" && len(args) > 1 {
		return args[:2], args[2:]
	}
	return nil, args
}

// command returns the go command with the arguments. When the context ends, the go command is
// interrupted, and killed after killDelay.
func command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = killDelay
	return cmd
}

// count returns the number of packages in a build, and the number of packages that the cache lacks.
// If the go command fails, count returns 0 for each number, because the build reports the error.
func count(ctx context.Context, dir, args []string) (total, left int) {
	list := slices.Concat([]string{"list"}, dir, []string{"-deps", "-f", "{{.Stale}}"}, without(args, "-o"))
	stale, err := command(ctx, list...).Output()
	if err != nil {
		return 0, 0
	}
	for line := range strings.Lines(string(stale)) {
		total++
		if strings.TrimSpace(line) == "true" {
			left++
		}
	}
	return total, left
}

// without returns the arguments without the flag and without the argument after the flag.
func without(args []string, flag string) []string {
	i := slices.Index(args, flag)
	if i < 0 || i+1 == len(args) {
		return args
	}
	return slices.Concat(args[:i], args[i+2:])
}

// meter shows the progress of a build.
type meter struct {
	out      io.Writer
	terminal bool
	label    string
	// target is the end of the import path of the main package. The go command compiles this
	// package last, and then links the program.
	target string
	began  time.Time

	// compiled is the number of packages that this build has started to compile. total is the
	// number of packages in the build, or 0 until it is known. before is the number of packages
	// that the cache had when the build started.
	compiled, before, total int
	linking, drawn          bool
}

// follow reads the output of the go command and shows the progress until the output ends.
func (m *meter) follow(lines <-chan string, count func() (total, left int)) {
	every := report
	if m.terminal {
		every = redraw
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	long := time.NewTimer(quick)
	defer long.Stop()
	counted := make(chan [2]int, 1)
	for {
		select {
		case line, more := <-lines:
			if !more {
				m.end(time.Now())
				return
			}
			m.hear(line)
		case <-long.C:
			sofar := m.compiled
			go func() {
				total, left := count()
				// left is the number of packages that the cache lacks now. This build has compiled
				// sofar packages. The cache had the rest before the build.
				counted <- [2]int{total, total - left - sofar}
			}()
		case c := <-counted:
			m.total, m.before = c[0], max(0, c[1])
		case now := <-tick.C:
			m.show(now)
		}
	}
}

// hear processes a line of the go command. A line is the import path of the package that is
// compiled next, or a message for the user.
func (m *meter) hear(line string) {
	if line == "" || strings.HasPrefix(line, "#") || strings.ContainsAny(line, " \t:") {
		m.say(line)
		return
	}
	m.compiled++
	m.linking = strings.HasSuffix(line, m.target)
}

// show prints the progress.
func (m *meter) show(now time.Time) {
	text := fmt.Sprintf("%s: %s, %v", m.label, m.progress(), now.Sub(m.began).Round(time.Second))
	if !m.terminal {
		m.say(text)
		return
	}
	fmt.Fprint(m.out, "\r\x1b[K"+text)
	m.drawn = true
}

func (m *meter) progress() string {
	switch {
	case m.linking:
		return "all packages compiled, linking"
	case m.total == 0:
		return fmt.Sprintf("%d packages compiled", m.compiled)
	}
	return fmt.Sprintf("%d of %d packages compiled", min(m.before+m.compiled, m.total), m.total)
}

// say prints a message on a new line.
func (m *meter) say(line string) {
	if m.drawn {
		fmt.Fprint(m.out, "\r\x1b[K")
		m.drawn = false
	}
	fmt.Fprintln(m.out, line)
}

// end prints the duration of the build, if the build has shown progress or took longer than report.
func (m *meter) end(now time.Time) {
	if took := now.Sub(m.began); m.drawn || took > report {
		m.say(fmt.Sprintf("%s: %v", m.label, took.Round(time.Second)))
	}
}
