// Package millrace is a client of key-value servers (millrace up, or memcached) over shared memory and sockets.
//
//	client, err := millrace.Open("shm:/run/millrace.shm", nil)
//	if err != nil {
//		log.Fatal(err)
//	}
//	defer client.Close()
//	err = client.Set("colour", []byte("blue"), 0, millrace.Forever)
//	item, err := client.Get("colour")
//	if errors.Is(err, millrace.ErrNotFound) {
//		...
//	}
//
// It is libmillrace, the client library in C, by cgo: that and its pkg-config file (millrace.pc) are to be installed, by millrace's package or by
// deploy/dist. Where they lie elsewhere PKG_CONFIG_PATH names the folder of millrace.pc, and LD_LIBRARY_PATH that of the library.
package millrace
