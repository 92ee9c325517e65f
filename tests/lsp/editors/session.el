;;; A session of Emacs with eglot, in batch: emacs --batch -l session.el, with NKI_FILE and NKI_SERVER.
(require 'package)
(package-initialize)
(require 'python)
(require 'eglot)
(require 'json)

(defvar session-server (split-string (getenv "NKI_SERVER") "\t"))
(setq eglot-server-programs (list (cons 'python-mode session-server))
      eglot-sync-connect 60
      eglot-connect-timeout 60
      eglot-stay-out-of nil
      make-backup-files nil)

(defun session-say (key value) (princ (concat (json-encode (list key value)) "\n")))

(defun session-wait (seconds test)
  (let ((end (+ (float-time) seconds)) found)
    (while (and (not (setq found (funcall test))) (< (float-time) end))
      (accept-process-output nil 0.1))
    found))

(find-file (getenv "NKI_FILE"))
(python-mode)
(apply #'eglot--connect (eglot--guess-contact))
(session-say "server" (plist-get (eglot--server-info (eglot-current-server)) :name))
(session-wait 60 #'flymake-diagnostics)
(session-say "diagnostics" (vconcat (mapcar #'flymake-diagnostic-text (flymake-diagnostics))))

(goto-char (point-min))
(search-forward "nisa.nc_mat")
(session-say "hover"
             (let ((found (jsonrpc-request (eglot--current-server-or-lose) :textDocument/hover
                                           (eglot--TextDocumentPositionParams))))
               (eglot--hover-info (plist-get found :contents) (plist-get found :range))))

(goto-char (point-max))
(insert "    nisa.nc_ma")
(let ((found (run-hook-with-args-until-success 'completion-at-point-functions)))
  (session-say "completion"
               (vconcat (mapcar #'substring-no-properties
                                (all-completions (buffer-substring (nth 0 found) (nth 1 found)) (nth 2 found))))))
(set-buffer-modified-p nil)
(eglot-shutdown (eglot-current-server))
