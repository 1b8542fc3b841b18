package playground

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

type dataDir struct {
	path      string
	temporary bool
	lock      *os.File
}

// openDataDir locks the directory path for this playground. If path is empty, it creates a
// temporary directory in tempDir.
func openDataDir(path, tempDir string) (*dataDir, error) {
	d := &dataDir{path: path}
	var err error
	if path == "" {
		if d.path, err = os.MkdirTemp(tempDir, "reprieve-playground-"); err != nil {
			return nil, fmt.Errorf("temporary data directory: %w", err)
		}
		d.temporary = true
	} else if d.path, err = filepath.Abs(path); err != nil {
		return nil, fmt.Errorf("data directory: %w", err)
	}
	if err := d.acquire(); err != nil {
		return nil, fmt.Errorf("data directory %s: %w", d.path, err)
	}
	for _, dir := range []string{d.home(), d.scratch()} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, errors.Join(fmt.Errorf("data directory: %w", err), d.close())
		}
	}
	return d, nil
}

// acquire locks the directory. It changes no file before it has the lock, because the directory may
// belong to another playground.
func (d *dataDir) acquire() error {
	if err := os.MkdirAll(d.path, 0o700); err != nil {
		return err
	}
	lock, err := os.OpenFile(filepath.Join(d.path, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	err = syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) //nolint:gosec // a descriptor fits an int
	if err == nil {
		d.lock = lock
		return nil
	}
	if errors.Is(err, syscall.EWOULDBLOCK) {
		err = errors.New("another playground is using it")
	}
	return errors.Join(err, lock.Close())
}

// home returns the home directory of the child processes, so that they do not read or write the
// user's files.
func (d *dataDir) home() string { return filepath.Join(d.path, "home") }

// scratch returns the directory for temporary files of the child processes.
func (d *dataDir) scratch() string { return filepath.Join(d.path, "tmp") }

func (d *dataDir) logPath(component string) string {
	return filepath.Join(d.path, "logs", component+".log")
}

// close removes the directory if it is temporary. Otherwise, it removes only temporary files and
// releases the lock.
func (d *dataDir) close() error {
	var errs []error
	if d.temporary {
		errs = append(errs, os.RemoveAll(d.path))
	} else {
		errs = append(errs, os.RemoveAll(d.scratch()))
	}
	return errors.Join(append(errs, d.unlock())...)
}

// unlock releases the lock and closes its file. Closing the file alone does not release the lock in
// all cases. A child process that is being started has a copy of the descriptor until it runs its
// program, and that copy would keep the lock.
func (d *dataDir) unlock() error {
	err := syscall.Flock(int(d.lock.Fd()), syscall.LOCK_UN) //nolint:gosec // a descriptor fits an int
	return errors.Join(err, d.lock.Close())
}

// childEnv returns the environment of a component. It passes only the listed variables, because
// etcd reads every ETCD_ variable as a flag. It replaces HOME, because components such as kwok read
// files in the home directory.
func childEnv(lookup func(string) (string, bool), home, scratch string) []string {
	env := []string{"HOME=" + home, "TMPDIR=" + scratch}
	for _, name := range []string{"PATH", "LANG", "TZ", "GOMAXPROCS", "GOMEMLIMIT", "GODEBUG", "GOTRACEBACK", "GORACE", "GOCOVERDIR"} {
		if value, ok := lookup(name); ok {
			env = append(env, name+"="+value)
		}
	}
	return env
}
