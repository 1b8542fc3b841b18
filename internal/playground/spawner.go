package playground

import (
	"os/exec"
	"runtime"
)

// spawner starts processes from one operating system thread that lives as long as the spawner.
// Linux sends the parent-death signal when the forking thread ends, even if the process continues.
// The thread of a goroutine may end at any time, and would kill healthy children.
type spawner struct {
	requests chan spawnRequest
	ended    chan struct{}
}

type spawnRequest struct {
	cmd    *exec.Cmd
	result chan<- error
}

// newSpawner starts the spawner's goroutine; close ends it.
func newSpawner() *spawner {
	s := &spawner{requests: make(chan spawnRequest), ended: make(chan struct{})}
	go func() {
		defer close(s.ended)
		// The goroutine never unlocks the thread. The thread ends with this goroutine, and so do
		// the remaining children.
		runtime.LockOSThread()
		for request := range s.requests {
			request.result <- request.cmd.Start()
		}
	}()
	return s
}

// start calls cmd.Start on the spawner's thread. It must not be called after close.
func (s *spawner) start(cmd *exec.Cmd) error {
	result := make(chan error, 1)
	s.requests <- spawnRequest{cmd: cmd, result: result}
	return <-result
}

func (s *spawner) close() {
	close(s.requests)
	<-s.ended
}
