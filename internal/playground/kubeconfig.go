package playground

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// kubeconfigName is the name of the cluster, of the user and of the context in the playground's
// kubeconfigs.
const kubeconfigName = "playground"

// probeTimeout is the maximum time of one check whether a server listens on a port.
const probeTimeout = time.Second

// encodeKubeconfig returns the kubeconfig file for a client configuration.
func encodeKubeconfig(config *rest.Config) ([]byte, error) {
	return clientcmd.Write(clientcmdapi.Config{
		Clusters: map[string]*clientcmdapi.Cluster{kubeconfigName: {
			Server:                   config.Host,
			CertificateAuthorityData: config.CAData,
		}},
		AuthInfos: map[string]*clientcmdapi.AuthInfo{kubeconfigName: {
			ClientCertificateData: config.CertData,
			ClientKeyData:         config.KeyData,
			Token:                 config.BearerToken,
		}},
		Contexts: map[string]*clientcmdapi.Context{kubeconfigName: {
			Cluster:  kubeconfigName,
			AuthInfo: kubeconfigName,
		}},
		CurrentContext: kubeconfigName,
	})
}

// checkKubeconfigTarget returns an error if the playground must not write a kubeconfig to path.
// Only a file that a killed playground left behind may be replaced.
func checkKubeconfigTarget(ctx context.Context, path string) error {
	info, err := os.Stat(filepath.Dir(path))
	if err != nil {
		return fmt.Errorf("write the kubeconfig: %w", err)
	}
	if !info.IsDir() {
		return fmt.Errorf("write the kubeconfig: %s is not a directory", filepath.Dir(path))
	}
	raw, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("write the kubeconfig: %w", err)
	}
	server, ours := playgroundServer(raw)
	if !ours {
		return fmt.Errorf("write the kubeconfig: %s exists already and is not a playground's; remove it or name another file", path)
	}
	dialer := net.Dialer{Timeout: probeTimeout}
	conn, err := dialer.DialContext(ctx, "tcp", server)
	if err != nil {
		return nil //nolint:nilerr // nobody answers, so the playground that wrote the file is gone
	}
	if err := conn.Close(); err != nil {
		return err
	}
	return fmt.Errorf("write the kubeconfig: %s belongs to a playground that is running; name another file", path)
}

// playgroundServer returns the host and port of the API server in a kubeconfig. It returns false if
// no playground wrote the kubeconfig.
func playgroundServer(raw []byte) (string, bool) {
	config, err := clientcmd.Load(raw)
	if err != nil || config.CurrentContext != kubeconfigName || len(config.Clusters) != 1 {
		return "", false
	}
	cluster, ok := config.Clusters[kubeconfigName]
	if !ok {
		return "", false
	}
	server, err := url.Parse(cluster.Server)
	if err != nil || server.Hostname() != loopback {
		return "", false
	}
	return server.Host, true
}

// writeFileAtomically writes content to path. A reader sees either the old file or all of the
// content. Only the owner can read the file.
func writeFileAtomically(path string, content []byte) error {
	temp, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-")
	if err != nil {
		return err
	}
	_, err = temp.Write(content)
	err = errors.Join(err, temp.Close())
	if err == nil {
		err = os.Rename(temp.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(temp.Name()))
	}
	return nil
}

// removeFileIfSame removes the file at path if its content is unchanged. Otherwise, it keeps the
// file.
func removeFileIfSame(path string, content []byte) error {
	raw, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if !bytes.Equal(raw, content) {
		return nil
	}
	return os.Remove(path)
}
